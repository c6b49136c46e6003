# A server of models: docker build -t ordinalrbm . && docker run -p 8000:8000 -v $PWD/models:/models
# ordinalrbm serve /models/films.orbm --host 0.0.0.0
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml README.md LICENSE MANIFEST.in ./
COPY src ./src
# Kernels are compiled for this machine's processor, and kept in the image.
ENV NUMBA_CACHE_DIR=/app/kernels
RUN pip install --no-cache-dir '.[serve]' \
    && useradd --create-home server \
    && ordinalrbm doctor --compile \
    && chown -R server /app/kernels
USER server
EXPOSE 8000
ENTRYPOINT ["ordinalrbm"]
CMD ["serve", "--help"]
