"""Grouping of problems about unreadable bytes by similar sentences: TF-IDF of their words, candidates by MinHash LSH.

The weights come from fixed sentences, not from those of the stream. So the similarity of two sentences depends only on
these two, and a rebuilt index joins the same problems.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import product
from typing import Final

from rensa import RMinHash, RMinHashLSH

from tidegate.gateway.storage.quarantine_index import Facet
from tidegate.gateway.streams.quarantine_index.facets import ProblemKey

ALIKE: Final = 0.35
"""The least cosine of sentences that mean the same; it has the best F1 on the labelled sentences."""
_PERMUTATIONS, _BANDS = 128, 64
"""Two hashes per band: pairs with a Jaccard similarity of 0.2 are candidates with a probability of 93 %."""
_LEAST_JACCARD = 0.1
_WORD = re.compile(r"[a-z0-9#_.-]*[a-z0-9#]")
_EXAMPLES = "sentences.json"
_MOST_REMEMBERED = 16
"""Maximum number of streams whose groups are cached; each takes up to 1 MB."""
_EMPTY_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "be",
        "must",
        "can",
        "not",
        "no",
        "of",
        "in",
        "its",
        "it",
        "that",
        "than",
        "and",
        "or",
        "nor",
        "has",
        "have",
        "does",
        "do",
        "by",
        "with",
        "at",
        "to",
    ]
)


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence about unreadable bytes; sentences with the same label mean the same."""

    sentence: str
    label: str


@cache
def labelled_sentences() -> tuple[LabelledSentence, ...]:
    """Return the labelled sentences of the package."""
    text = resources.files(__package__).joinpath(_EXAMPLES).read_text("utf-8")
    return tuple(
        LabelledSentence(sentence, label) for label, found in json.loads(text).items() for sentence in found
    )


def joined_problems(facets: Iterable[Facet]) -> dict[bytes, bytes]:
    """Return the representative of each problem's group, by the problem's facet; for most it is the problem itself.

    Only problems about unreadable bytes are grouped: those of a group have the same stage, and all their sentences mean
    the same. The representative is the lowest facet of the group.
    """
    keys = {facet.facet: ProblemKey.read(facet) for facet in facets}
    representatives = {facet: facet for facet in keys}
    unreadable = sorted(facet for facet, key in keys.items() if key.is_noise)
    for group in _known_groups(tuple((keys[facet].stage, keys[facet].sentence) for facet in unreadable)):
        members = [unreadable[index] for index in group]
        representatives |= dict.fromkeys(members, min(members))
    return representatives


@lru_cache(maxsize=_MOST_REMEMBERED)
def _known_groups(sentences: tuple[tuple[str, str], ...]) -> tuple[tuple[int, ...], ...]:
    """Return `groups_of`: for the most problems of a stream it takes seconds, and pages and checks ask again and again."""
    return tuple(map(tuple, groups_of(sentences)))


def groups_of(sentences: Sequence[tuple[str, str]], alike: float = ALIKE) -> list[list[int]]:
    """Return groups of pairs (stage, sentence) of one stage whose sentences mean the same, as ascending indices.

    All sentences of a group are similar to each other (complete linkage): with single linkage, one vague sentence would
    join all others.
    """
    vectors = [_vector(sentence) for _, sentence in sentences]
    similar: dict[tuple[int, int], float] = {}
    for one, other in _candidates(vectors):
        similarity = cosine(vectors[one], vectors[other])
        if sentences[one][0] == sentences[other][0] and similarity >= alike:
            similar[one, other] = similarity
    groups = {index: [index] for index in range(len(sentences))}
    group_of = list(range(len(sentences)))
    # The order depends on the sentences only, so that a rebuilt index has the same groups.
    for one, other in sorted(
        similar, key=lambda pair: (-similar[pair], sentences[pair[0]], sentences[pair[1]])
    ):
        low, high = sorted((group_of[one], group_of[other]))
        if low != high and all(tuple(sorted(pair)) in similar for pair in product(groups[low], groups[high])):
            for index in groups[high]:
                group_of[index] = low
            groups[low] += groups.pop(high)
    return [sorted(group) for group in groups.values()]


def cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the cosine of two vectors of length 1."""
    return sum(weight * other[term] for term, weight in one.items() if term in other)


def _candidates(vectors: Sequence[Mapping[str, float]]) -> Iterable[tuple[int, int]]:
    """Yield the pairs that share a band of their MinHash."""
    index = RMinHashLSH(threshold=_LEAST_JACCARD, num_perm=_PERMUTATIONS, num_bands=_BANDS)
    for position, vector in enumerate(vectors):
        signature = RMinHash(num_perm=_PERMUTATIONS, seed=1)
        signature.update(sorted(vector))
        yield from ((other, position) for other in sorted(index.query(signature)))
        index.insert(position, signature)


def _vector(sentence: str) -> dict[str, float]:
    """Return the TF-IDF weights of the words of a sentence, as a vector of length 1."""
    weights = {
        term: (1 + math.log(times)) * _inverse_frequency(term)
        for term, times in Counter(_terms(sentence)).items()
    }
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {term: weight / length for term, weight in weights.items()} if length else {}


def _terms(sentence: str) -> list[str]:
    """Return the stems of the significant words of a sentence: those after its last colon, if any follow it."""
    before, _, after = sentence.lower().rpartition(": ")
    words = _WORD.findall(after) or _WORD.findall(before)
    return [_stem(word) for word in words if word not in _EMPTY_WORDS]


def _stem(word: str) -> str:
    """Cut the endings of a plural or a participle."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word.removesuffix("e") if len(word) > 4 else word


@cache
def _frequencies() -> Counter[str]:
    return Counter(term for each in labelled_sentences() for term in set(_terms(each.sentence)))


def _inverse_frequency(term: str) -> float:
    """Return the smoothed inverse document frequency. Source: Spärck Jones 1972; smoothed as in scikit-learn."""
    return 1 + math.log((1 + len(labelled_sentences())) / (1 + _frequencies()[term]))
