"""Words by which columns and answers are recognised: no answer, known orders, roles.

All of it is data. Phrases are written as people write them; case, accents, apostrophes and
punctuation do not count when they are compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# ---- comparing --------------------------------------------------------------------------------


def plain_words(text: str) -> str:
    """Text in small letters without accents and punctuation.

    Examples
    --------
    >>> plain_words("Weiß  nicht / N'est pas sûr!")
    'weiss nicht nest pas sur'
    """
    text = re.sub(r"['’`´]", "", text.casefold())
    letters = unicodedata.normalize("NFKD", text)
    return " ".join(re.findall(r"[a-z0-9]+", letters.encode("ascii", "ignore").decode()))


def name_words(name: str) -> set[str]:
    """The words in a column's name.

    Examples
    --------
    >>> sorted(name_words("homeCountry_2")), sorted(name_words("SEX"))
    (['country', 'home'], ['sex'])
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[^\d])|(?<=[^\d])(?=\d)", " ", name)
    return {word for word in plain_words(apart).split() if not word.isdigit()}


def _alternatives(phrases: str) -> list[str]:
    return [plain_words(phrase) for phrase in phrases.split("|")]


# ---- no answer --------------------------------------------------------------------------------

# The whole label must be one of these.
_NO_ANSWER_ALONE = frozenset(
    _alternatives(
        "na|n/a|n.a.|dk|d/k|dk/na|dk/ref|nr|ns|nc|ns/nc|nsp|ref|rf|kA|k.A.|wn|w.n.|tnz|missing|"
        "system missing|missing data|missing value|invalid|invalid response|unknown|none given|"
        "blank|inap|iap|inapplicable|not available|unspecified|"
        "skipped|skip|does not apply|doesn't apply|refus|no sé|"
        "no reply|no response|nonresponse|non-response|no data|other missing|nan|null|"
        "fehlend|ungültig|unbekannt|entfällt|inconnu|manquant|desconocido|sin dato|perdido"
    )
)
# The label must hold one of these and not many words more: they can hardly be an answer.
_NO_ANSWER_WITHIN = tuple(
    _alternatives(
        "refuse to answer|refused to answer|no answer|"
        "not answered|did not answer|unanswered|not applicable|declined to answer|"
        "not asked|question not asked|not ascertained|legitimate skip|"
        "prefer not to say|prefer not to answer|prefer not to disclose|prefer not to respond|"
        "rather not say|rather not answer|not stated|not reported|not administered|not reached|"
        "item missing|"
        "keine Angabe|keine Antwort|Antwort verweigert|"
        "nicht anwendbar|nicht erhoben|nicht gefragt|möchte ich nicht sagen|"
        "sans réponse|pas de réponse|non concerné|non applicable|sans objet|non réponse|"
        "no contesta|no responde|sin respuesta|no procede|no aplica|"
        "prefiero no contestar|prefiero no responder|prefiero no decir|prefiero no decirlo|"
        "non risponde|geen antwoord|não responde"
    )
)
_MOST_WORDS_AROUND = 4
# With other words these are answers: "don't know it at all", "refused the offer".
_NO_ANSWER_NEARLY_ALONE = tuple(
    _alternatives(
        "don't know|do not know|dont know|doesn't know|does not know|didn't know|don't remember|"
        "can't remember|do not remember|refused|refusal|refuse|prefer not|no opinion|"
        "can't choose|cannot choose|can't say|cannot say|"
        "weiß nicht|weiß ich nicht|verweigert|kann ich nicht sagen|kann nicht sagen|"
        "ne sait pas|ne sais pas|refusé|sans opinion|"
        "no sabe|no lo sé|prefiero no|no recuerda|rehúsa|non so|weet niet|não sabe"
    )
)
# What may stand beside these without making an answer of it.
_ASIDE = frozenset(
    plain_words(
        "i the or and to answer dk na nr ref rf missing spontaneous spontan spontané spontanément "
        "volunteered vol unprompted do not read out not sure unsure undecided uncertain other none "
        "respondent respondents interviewer question this code card web inapplicable item no "
        "oder und nicht sicher ka ich je ou et y o nsp ns nc"
    ).split()
)


def means_no_answer(label: str) -> bool:
    """Whether a label says that there is no answer.

    Examples
    --------
    >>> [means_no_answer(text) for text in ("Don’t know", "N/A", "Refused (spontaneous)", "No")]
    [True, True, True, False]
    >>> means_no_answer("Don't know it at all")
    False
    """
    words = _without_number(plain_words(label))
    if words in _NO_ANSWER_ALONE:
        return True
    padded = f" {words} "
    n_words = len(words.split())
    for phrase in _NO_ANSWER_WITHIN:
        if f" {phrase} " in padded and n_words - len(phrase.split()) <= _MOST_WORDS_AROUND:
            return True
    rest = padded
    for phrase in _NO_ANSWER_NEARLY_ALONE:
        rest = rest.replace(f" {phrase} ", " ")
    return rest != padded and (set(rest.split()) <= _ASIDE or rest.strip() in _NO_ANSWER_ALONE)


def _without_number(words: str) -> str:
    """Without the code that some files repeat in front of a label, as in "1 - never"."""
    return re.sub(r"^\d+ (?=[a-z])", "", words)


# ---- answers with an order --------------------------------------------------------------------

# From strongest to weakest; "" is the bare word.
_STRENGTHS = (
    "completely|totally|absolutely|extremely|fully|entirely|always",
    "strongly|very|very much|much|a lot|definitely|highly|a great deal",
    "mostly|quite|generally|largely|usually",
    "",
    "somewhat|fairly|rather|moderately|tend to|partly|mildly|probably|sort of|pretty",
    "slightly|a little|a bit|a little bit",
)
# Negative and positive pole; without a negative one there is only "not ... at all" and the like.
_POLES = (
    ("disagree", "agree"),
    ("dissatisfied|unsatisfied", "satisfied"),
    ("unlikely", "likely"),
    ("unimportant", "important"),
    ("unhappy", "happy"),
    ("unfavorable|unfavourable", "favorable|favourable"),
    ("uncomfortable", "comfortable"),
    ("difficult|hard", "easy"),
    ("oppose|opposed|against", "support|favor|favour|in favor|in favour|for"),
    ("disapprove", "approve"),
    ("inaccurate", "accurate"),
    ("untrue|false|not true of me", "true|true of me"),
    ("dislike", "like"),
    ("unlike me", "like me"),
    ("worse", "better"),
    ("unsafe", "safe"),
    ("decreased|decrease", "increased|increase"),
    ("negative", "positive"),
    ("distrust", "trust"),
    ("unfair", "fair"),
    ("unacceptable", "acceptable"),
    ("unsupportive", "supportive"),
    ("unwilling", "willing"),
    ("uninterested", "interested"),
    ("", "concerned"),
    ("", "worried"),
    ("", "confident"),
    ("", "familiar"),
    ("", "useful"),
    ("", "helpful"),
    ("", "effective"),
    ("", "informed"),
    ("", "well"),
    ("", "close"),
    ("", "proud"),
    ("", "serious"),
    ("", "stressful"),
    ("", "anxious"),
)
_MIDDLE = (
    "neutral|neither|neither nor|undecided|mixed|no difference|unsure|not sure|in between|"
    "in the middle|about the same|the same|same|no change|stayed the same|unchanged|ok|okay|"
    "neutral neither"
)
# From lowest to highest; alternatives of one level are separated by |.
_SCALES = (
    # frequency
    (
        "never|not at all|at no time",
        "almost never|hardly ever|very rarely|never or almost never|never or hardly ever",
        "rarely|seldom|infrequently",
        "once in a while|occasionally|now and then|from time to time|not often|a few times",
        "sometimes|some of the time|several days",
        "about half the time|half of the time",
        "often|frequently|fairly often|regularly|more than half the days",
        "usually|most of the time|very often|very frequently|mostly|a lot of the time",
        "almost always|nearly always|nearly every day",
        "always|all of the time|all the time|every time|constantly",
    ),
    # how many times
    (
        "never|never or almost never|never or hardly ever|not at all",
        "less than once a year|almost never|hardly ever",
        "once a year|yearly|once a year or less|once or twice a year",
        "a few times a year|several times a year|less than once a month|less often",
        "about once a month|once a month|monthly|once or twice a month|1-2 times a month",
        "several times a month|a few times a month|2-3 times a month|less than once a week",
        "about once a week|once a week|weekly|once or twice a week|1-2 times a week",
        "several times a week|a few times a week|more than once a week|2-3 times a week",
        "almost every day|almost daily|nearly every day|most days",
        "every day|daily|once a day|every day or almost every day",
        "several times a day|more than once a day|many times a day",
    ),
    # quality
    (
        "terrible|awful|horrible|extremely poor|extremely bad|worst",
        "very poor|very bad",
        "poor|bad",
        "below average|somewhat bad|somewhat poor|fairly bad",
        "fair|average|ok|okay|acceptable|neutral|so so|mediocre|neither good nor bad",
        "above average|somewhat good|fairly good|satisfactory",
        "good",
        "very good|great",
        "excellent|outstanding|exceptional|extremely good|perfect|best",
    ),
    # amount
    (
        "none|not at all|nothing|none at all|no interest|not any|no trust at all",
        "very little|hardly any|hardly at all|hardly|very slightly",
        "a little|not much|little|slightly|a bit|only a little|a little bit|not very much|not very",
        "some|somewhat|a moderate amount|moderately|to some extent|a fair amount|partly|fairly",
        "quite a bit|quite a lot|quite|rather|mostly",
        "much|a lot|lots|a good deal|very|to a large extent",
        "very much|a great deal|a whole lot",
        "extremely|completely|totally|entirely|fully",
    ),
    # how many
    (
        "none|none of them|no one",
        "few|a few|very few",
        "some|some of them",
        "about half|half",
        "most|many|most of them",
        "all|all of them|everyone",
    ),
    # height
    (
        "very low|lowest|extremely low",
        "low|lower",
        "below average|medium low|lower middle",
        "medium|moderate|average|mid|middle|intermediate",
        "above average|medium high|upper middle",
        "high|upper",
        "very high|highest|extremely high",
    ),
    # size
    ("very small|tiny", "small", "medium|middle", "large|big", "very large|huge|very big"),
    # yes and no
    (
        "definitely not|definitely no|no definitely not|absolutely not|no never",
        "probably not|probably no|rather no",
        "no|false|not mentioned|not selected|not chosen|unchecked|n|f|no i do not",
        "maybe|perhaps|possibly|unsure|not sure|sometimes|it depends|partly|yes and no",
        "probably yes|probably|rather yes",
        "yes|true|mentioned|selected|chosen|checked|y|t|yes i do",
        "definitely yes|definitely|yes definitely|absolutely|yes always",
    ),
    # liking
    (
        "hate|hate it|loathe|detest",
        "strongly dislike|dislike a great deal|dislike very much",
        "dislike|don't like|do not like|dislike it",
        "neutral|ok|okay|indifferent|neither like nor dislike|it's ok",
        "like|like it",
        "strongly like|like a great deal|like very much",
        "love|love it|adore",
    ),
    # likeness, as in the Schwartz value survey
    (
        "not like me at all|very much unlike me",
        "not like me|unlike me|mostly not like me",
        "a little like me|a little unlike me",
        "somewhat like me",
        "like me|mostly like me",
        "very much like me",
    ),
    # skill
    (
        "none|no knowledge",
        "novice|beginner|basic",
        "intermediate|competent",
        "advanced|proficient",
        "expert|fluent|native",
    ),
    # schooling
    (
        "no schooling|none|no formal education|no formal schooling",
        "primary|primary school|elementary|elementary school|primary education",
        "less than high school degree|less than high school|some high school|lower secondary",
        "high school degree|high school|high school graduate|high school diploma|secondary|"
        "high school or ged|upper secondary|secondary school|secondary education",
        "some college or associate degree|some college|post-secondary|vocational",
        "associate degree|associate's degree|two-year degree|2-year degree",
        "bachelor degree|bachelor's degree|bachelor|bachelors|college degree|college graduate|"
        "college|undergraduate degree|4-year degree|university|tertiary",
        "some graduate school|some postgraduate",
        "graduate degree|postgraduate degree|master's degree|masters|master|advanced degree|"
        "graduate or professional degree|graduate|postgraduate",
        "professional degree",
        "doctorate|doctoral degree|phd|doctor",
    ),
    # left and right
    (
        "extremely liberal|far left",
        "very liberal|very left",
        "liberal|left",
        "slightly liberal|somewhat liberal|center left|centre left",
        "moderate|middle of the road|center|centre|moderate middle of the road",
        "slightly conservative|somewhat conservative|center right|centre right",
        "conservative|right",
        "very conservative|very right",
        "extremely conservative|far right",
    ),
    # German
    (
        "stimme überhaupt nicht zu|stimme gar nicht zu|trifft überhaupt nicht zu|"
        "trifft gar nicht zu|lehne voll und ganz ab|lehne stark ab|lehne voll ab",
        "stimme nicht zu|trifft nicht zu|lehne ab",
        "stimme eher nicht zu|trifft eher nicht zu|lehne eher ab|trifft kaum zu|stimme kaum zu",
        "teils teils|weder noch|neutral|unentschieden|teils/teils|trifft teilweise zu",
        "stimme eher zu|trifft eher zu|trifft etwas zu",
        "stimme zu|trifft zu|trifft überwiegend zu",
        "stimme voll zu|stimme voll und ganz zu|trifft voll zu|trifft voll und ganz zu|"
        "stimme sehr zu|trifft genau zu|stimme stark zu|trifft völlig zu",
    ),
    (
        "nie|niemals|noch nie",
        "fast nie|sehr selten",
        "selten",
        "manchmal|gelegentlich|ab und zu",
        "oft|häufig|öfter|regelmäßig",
        "sehr oft|sehr häufig|meistens|fast immer",
        "immer|ständig|jedes Mal",
    ),
    (
        "sehr schlecht|mangelhaft",
        "schlecht|eher schlecht",
        "mittel|mittelmäßig|teils teils|befriedigend|weder gut noch schlecht",
        "eher gut",
        "gut",
        "sehr gut|ausgezeichnet",
    ),
    (
        "überhaupt nicht zufrieden|sehr unzufrieden|äußerst unzufrieden",
        "unzufrieden|ziemlich unzufrieden",
        "eher unzufrieden|weniger zufrieden",
        "teils teils|weder noch|neutral",
        "eher zufrieden",
        "zufrieden|ziemlich zufrieden",
        "sehr zufrieden|äußerst zufrieden",
    ),
    (
        "überhaupt nicht wichtig|gar nicht wichtig|völlig unwichtig|sehr unwichtig",
        "unwichtig|nicht wichtig",
        "eher unwichtig|weniger wichtig",
        "teils teils|weder noch|neutral|mittel",
        "eher wichtig",
        "wichtig",
        "sehr wichtig|äußerst wichtig",
    ),
    (
        "überhaupt nicht|gar nicht",
        "wenig|kaum|ein wenig|etwas",
        "mittelmäßig|mäßig|teilweise",
        "ziemlich|stark|viel",
        "sehr|sehr stark|sehr viel",
    ),
    ("sehr niedrig", "niedrig|gering", "mittel", "hoch", "sehr hoch"),
    (
        "nein|nicht genannt|auf keinen Fall",
        "eher nein|eher nicht",
        "vielleicht|teils teils",
        "eher ja",
        "ja|genannt",
        "auf jeden Fall",
    ),
    # French
    (
        "pas du tout d'accord|tout à fait en désaccord",
        "pas d'accord|en désaccord",
        "plutôt pas d'accord|plutôt en désaccord",
        "ni d'accord ni pas d'accord|neutre|ni d'accord ni en désaccord|sans avis",
        "plutôt d'accord",
        "d'accord",
        "tout à fait d'accord|entièrement d'accord",
    ),
    (
        "jamais",
        "presque jamais|très rarement",
        "rarement",
        "parfois|de temps en temps|quelquefois",
        "souvent",
        "très souvent|presque toujours",
        "toujours",
    ),
    (
        "très mauvais|très mauvaise|très mal",
        "mauvais|mauvaise|mal",
        "moyen|moyenne|passable",
        "assez bon|assez bonne|assez bien",
        "bon|bonne|bien",
        "très bon|très bonne|très bien",
        "excellent|excellente",
    ),
    (
        "pas du tout satisfait",
        "pas satisfait|insatisfait|plutôt pas satisfait",
        "neutre",
        "plutôt satisfait|assez satisfait",
        "satisfait",
        "très satisfait|tout à fait satisfait",
    ),
    (
        "pas du tout|aucun",
        "un peu|peu|pas beaucoup",
        "moyennement",
        "assez|plutôt",
        "beaucoup",
        "énormément|tout à fait",
    ),
    ("non", "peut-être", "oui"),
    ("faible|bas", "moyen", "élevé|fort|haut"),
    # Spanish
    (
        "totalmente en desacuerdo|muy en desacuerdo|completamente en desacuerdo",
        "en desacuerdo|bastante en desacuerdo",
        "algo en desacuerdo|más bien en desacuerdo",
        "ni de acuerdo ni en desacuerdo|neutral|indiferente",
        "algo de acuerdo|más bien de acuerdo",
        "de acuerdo|bastante de acuerdo",
        "totalmente de acuerdo|muy de acuerdo|completamente de acuerdo",
    ),
    (
        "nunca",
        "casi nunca|muy raramente",
        "rara vez|raramente|pocas veces",
        "a veces|algunas veces|de vez en cuando",
        "a menudo|frecuentemente|con frecuencia|muchas veces",
        "casi siempre|muy a menudo",
        "siempre",
    ),
    (
        "muy malo|muy mala|muy mal|pésimo",
        "malo|mala|mal",
        "regular",
        "bueno|buena|bien",
        "muy bueno|muy buena|muy bien",
        "excelente",
    ),
    (
        "nada|nada en absoluto|ninguno",
        "poco|un poco|muy poco",
        "algo|regular",
        "bastante",
        "mucho",
        "muchísimo",
    ),
    (
        "muy insatisfecho|nada satisfecho",
        "insatisfecho|poco satisfecho",
        "neutral|indiferente",
        "algo satisfecho",
        "satisfecho|bastante satisfecho",
        "muy satisfecho",
    ),
    ("no", "tal vez|quizás", "sí"),
    ("bajo|baja", "medio|media", "alto|alta"),
)


def _with_strength(strength: str, poles: str) -> str:
    """All ways to say it: "strongly agree", "agree strongly"."""
    ways = []
    for pole in poles.split("|"):
        for word in strength.split("|"):
            ways += [f"{word} {pole}", f"{pole} {word}"] if word else [pole]
    return "|".join(ways)


def _between(negative: str, positive: str) -> tuple[str, ...]:
    """The levels between two poles, from lowest to highest."""
    not_at_all = "|".join(f"not at all {p}|not {p} at all" for p in positive.split("|"))
    plainly_not = "|".join(f"not {p}" for p in positive.split("|"))
    hardly = "|".join(
        f"not {word} {p}"
        for p in positive.split("|")
        for word in ("very", "too", "so", "really", "particularly", "that", "much", "very much")
    )
    below = [_with_strength(strength, negative) for strength in _STRENGTHS] if negative else []
    neither = "|".join(
        f"neither {a} nor {b}|neither {a} or {b}"
        for p in positive.split("|")
        for q in negative.split("|")
        for a, b in ((p, q), (q, p))
    )
    above = [_with_strength(strength, positive) for strength in reversed(_STRENGTHS)]
    return (not_at_all, *below, plainly_not, hardly, f"{_MIDDLE}|{neither}", *above)


def _positions(levels: tuple[str, ...]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for position, alternatives in enumerate(levels):
        for phrase in _alternatives(alternatives):
            positions.setdefault(phrase, position)
    return positions


_ORDERS = tuple(
    _positions(levels) for levels in (*_SCALES, *(_between(*poles) for poles in _POLES))
)


def known_order(texts: Iterable[str]) -> list[str] | None:
    """The texts from lowest to highest where all belong to one known scale, else None.

    Examples
    --------
    >>> known_order(["Agree", "Strongly disagree", "Neutral"])
    ['Strongly disagree', 'Neutral', 'Agree']
    >>> known_order(["red", "green"]) is None
    True
    """
    phrases = {text: _without_number(plain_words(text)) for text in texts}
    for positions in _ORDERS:
        found = {text: positions.get(phrase) for text, phrase in phrases.items()}
        places = [place for place in found.values() if place is not None]
        if len(places) == len(found) >= 2 and len(set(places)) == len(places):
            return sorted(found, key=lambda text: found[text] or 0)
    return None


# ---- what names of columns say ----------------------------------------------------------------

# Categories without an order.
NOMINAL_WORDS = frozenset(
    plain_words(
        "country countries nation nationality citizenship region state province county district "
        "city town municipality location continent zip postcode "
        "sex gender geschlecht sexe sexo "
        "party parties religion denomination race ethnicity ethnic ethnie ethgrp "
        "language lang sprache langue idioma "
        "occupation profession job industry sector isco beruf major faculty department "
        "marital married maritalstatus familienstand employment employed empstat "
        "land bundesland pays pais région región partei parti partido "
        "group condition treatment arm mode interviewer browser device platform "
        "hand handedness orientation hemisphere"
    ).split()
)
# Numbers that measure something about people.
MEASURED_WORDS = frozenset(
    plain_words(
        "age alter edad birthyear yearborn yob yrborn birth born "
        "birthday geburtsjahr naissance duration dauer latitude longitude"
    ).split()
)
# Words that may stand beside these: "which country do you live in", "respondent's age group".
_BESIDE = frozenset(
    plain_words(
        "what which your you the are respondent respondents persons person home birth current "
        "live reside residence were was year years group groups category categories code name "
        "type status recode recoded main own household survey sample self identified total full "
        "interview iso census standard number original derived exact categorised completed "
        "welches welchem welche ihr ihre sind des der die befragten gruppe kategorie jahr "
        "quel quelle est votre vous groupe cual tiene usted grupo"
    ).split()
)
# Answers that are categories whatever number they carry.
NOMINAL_ANSWERS = tuple(
    _alternatives(
        "other|others|something else|another|none of these|none of the above|sonstige|sonstiges|"
        "andere|anderes|autre|autres|otro|otra|otros|"
        "male|female|man|woman|men|women|boy|girl|männlich|weiblich|mann|frau|divers|"
        "homme|femme|hombre|mujer|masculin|féminin|masculino|femenino|non-binary|transgender|"
        "married|single|divorced|widowed|separated|cohabiting|never married|verheiratet|ledig|"
        "geschieden|verwitwet|marié|célibataire|divorcé|casado|soltero|divorciado|"
        "employed|unemployed|retired|student|housewife|homemaker|self-employed|full-time|part-time|"
        "disabled|arbeitslos|rentner|"
        "catholic|protestant|muslim|jewish|hindu|buddhist|orthodox|atheist|agnostic|"
        "democrat|republican|independent|labour|tory|green|greens|spd|cdu|csu|"
        "white|black|asian|hispanic|latino|african american|"
        "north|south|east|west|northeast|midwest|southeast|southwest|"
        "english|german|french|spanish|chinese|germany|france|spain|italy|united states|usa|"
        "united kingdom|canada|mexico|austria|switzerland|"
        "left-handed|right-handed|ambidextrous|heterosexual|homosexual|bisexual|"
        "control|treatment"
    )
)


def named_after(text: str, known: frozenset[str]) -> str | None:
    """The known word that a column's name or label is about; None if it is about more than that.

    Examples
    --------
    >>> named_after("Which country do you live in?", NOMINAL_WORDS)
    'country'
    >>> named_after("job_satisfaction", NOMINAL_WORDS) is None
    True
    """
    words = {word for word in name_words(text) if len(word) > 2}
    about = words & known
    beside = words - about - NOMINAL_WORDS - MEASURED_WORDS - _BESIDE
    return min(about) if about and not beside else None


_ORDERED_PARTIES = ("strong democrat", "weak democrat", "strong republican", "weak republican")


def names_categories(labels: Iterable[str]) -> bool:
    """Whether labels name categories that have no order: sexes, parties, "other".

    Examples
    --------
    >>> names_categories(["Male", "Female"]), names_categories(["None", "Some", "All"])
    (True, False)
    """
    phrases = [_without_number(plain_words(label)) for label in labels]
    if any(phrase in _ORDERED_PARTIES for phrase in phrases):
        return False  # party identification runs from one end to the other
    first_words = [phrase for phrase in phrases if phrase.startswith(("other ", "another "))]
    return bool(first_words) or any(phrase in NOMINAL_ANSWERS for phrase in phrases)


_WEIGHT_NAME = re.compile(r"weight|wgt|wght|gewicht|poids|pondera|(^|_)wt|wt($|_|\d)", re.I)
_BODY = re.compile(r"(\b|_)(body|kg|kilo\w*|pounds?|lbs?|birth|grams?)(\b|_)|körper", re.I)
_ID_NAME = re.compile(
    r"(^|[_\W])(id|ids|uuid|guid|serial|caseid|respid|respondent|respondentid|participant|"
    r"subject|subjid|idno|key|rowid|pid|uid|case|lfdnr|record|recordid)($|[_\W\d])|"
    r"(resp\w*|case|person|subject|user|participant|record|row|household|hh|student|stu)_?id$|"
    r"[a-z]I[dD]$",
    re.I,
)


def looks_like_weight(name: str, question: str) -> bool:
    """Whether name and label of a column are those of a survey weight.

    Examples
    --------
    >>> looks_like_weight("W_FSTUWT", ""), looks_like_weight("growth", "")
    (True, False)
    >>> looks_like_weight("weight", "Body weight in kg")
    False
    """
    return bool(_WEIGHT_NAME.search(name)) and not _BODY.search(f"{name} {question}")


def looks_like_id(name: str) -> bool:
    """Whether a column's name is that of an id.

    Examples
    --------
    >>> looks_like_id("RespondentID"), looks_like_id("case_id"), looks_like_id("idea")
    (True, True, False)
    """
    return bool(_ID_NAME.search(name))
