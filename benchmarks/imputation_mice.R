# Rscript imputation_mice.R IN.csv OUT.csv M METHOD: mice for each replication of a table of numbers.
arguments <- commandArgs(TRUE)
suppressMessages(library(mice))
every <- read.csv(arguments[1])
number <- function(column) as.numeric(as.character(column))
imputed <- lapply(unique(every$replication), function(r) {
  table <- every[every$replication == r, -1]
  if (arguments[4] == "polr") table[] <- lapply(table, factor, ordered = TRUE)
  method <- ifelse(colSums(is.na(table)) > 0, arguments[4], "")
  found <- mice(table, m = as.integer(arguments[3]), method = method, seed = r + 1, printFlag = FALSE)
  do.call(rbind, lapply(seq_len(found$m), function(k) sapply(complete(found, k), number)))
})
write.table(do.call(rbind, imputed), arguments[2], row.names = FALSE, col.names = FALSE, sep = ",")
