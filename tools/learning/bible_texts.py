#!/usr/bin/env python3
"""Make data sets of the King James Bible as Debian has it (packages bible-kjv and bible-kjv-text): a text to go on with,
and verses to tell apart.

Usage: bible_texts.py FOLDER AMPCTL

Every tenth chapter is for validation, the others for training. FOLDER gets

  train.txt val.txt        the text: a line a verse, an empty line behind each chapter
  train.bin val.bin        its bytes as tokens, for data.train.tokens
  train.tsv test.tsv       a line a verse: text, tab, OLD or NEW for the Testament that it is from
  vocab.txt                8,192 word pieces for BERT: the letters, and the words of the training verses by frequency
  train.jsonl test.jsonl   the verses as word pieces, for data.train.jsonl; class 0 is the Old Testament
"""
import collections
import itertools
import math
import pathlib
import re
import shlex
import string
import subprocess
import sys

BOOKS_OF_THE_OLD_TESTAMENT = 39
VERSES = 31102
VALIDATION_CHAPTERS = 10  # every tenth chapter is for validation
VOCABULARY = 8192
VERSE = re.compile(r"(?P<book>\d?[A-Za-z]+)(?P<chapter>\d+):\d+ (?P<text>.+)")


def read_chapters():
    """Returns [(Testament, [verse, ...])] for all chapters, in order."""
    try:
        told = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bible_texts: {error}; apt-get install bible-kjv bible-kjv-text")
    verses = [VERSE.fullmatch(line) for line in told.splitlines()]
    if len(verses) != VERSES or None in verses:
        sys.exit(f"bible_texts: bible gave {len(verses)} lines, not the {VERSES} verses that it has")
    books = list(dict.fromkeys(verse["book"] for verse in verses))
    old = set(books[:BOOKS_OF_THE_OLD_TESTAMENT])
    return [("OLD" if book in old else "NEW", [verse["text"] for verse in chapter])
            for (book, _), chapter in itertools.groupby(verses, lambda verse: verse.group("book", "chapter"))]


def text_of(chapters):
    return "\n".join("\n".join(verses) + "\n" for _, verses in chapters)


def labelled(chapters):
    return "text\tlabel\n" + "".join(f"{verse}\t{testament}\n" for testament, verses in chapters for verse in verses)


def word_pieces(text):
    """Returns BERT's special pieces, every letter and punctuation mark, and the words that occur at least twice."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation, *string.ascii_lowercase,
              *("##" + letter for letter in string.ascii_lowercase)]
    words = collections.Counter(re.findall("[a-z]{2,}", text.lower()))
    by_frequency = sorted((word for word, count in words.items() if count > 1), key=lambda word: (-words[word], word))
    return (pieces + by_frequency)[:VOCABULARY]


def unigram_entropy(path):
    """Returns the entropy of a file's bytes in nats. It is the smallest loss of a model that looks at each byte
    alone."""
    counts = collections.Counter(pathlib.Path(path).read_bytes())
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


def majority(path):
    """Returns the share of the larger class in a file of labelled texts."""
    labels = collections.Counter(line.rpartition("\t")[2] for line in pathlib.Path(path).read_text().splitlines()[1:])
    return max(labels.values()) / sum(labels.values())


def tokenize(ampctl, *arguments):
    command = [str(ampctl), "data", "tokenize", *map(str, arguments), "--force"]
    print("$ " + shlex.join(["ampctl", *command[1:]]), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bible_texts: ampctl data tokenize ended with {done.returncode}")
    print(done.stdout, end="", flush=True)


def write(folder, ampctl):
    """Writes all files that the module's docstring lists, with ampctl as users run it."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chapters = read_chapters()
    training = [chapter for number, chapter in enumerate(chapters, 1) if number % VALIDATION_CHAPTERS]
    validation = chapters[VALIDATION_CHAPTERS - 1::VALIDATION_CHAPTERS]
    for name, content in (("train.txt", text_of(training)), ("val.txt", text_of(validation)),
                          ("train.tsv", labelled(training)), ("test.tsv", labelled(validation)),
                          ("vocab.txt", "\n".join(word_pieces(text_of(training))) + "\n")):
        (folder / name).write_text(content, encoding="ascii")
    for name in ("train", "val"):
        tokenize(ampctl, folder / f"{name}.txt", folder / f"{name}.bin")
    for name in ("train", "test"):
        tokenize(ampctl, folder / f"{name}.tsv", folder / f"{name}.jsonl", "--jsonl", "--vocab", folder / "vocab.txt",
                 "--classes", "OLD,NEW", "--max-length", "64")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write(*sys.argv[1:])
