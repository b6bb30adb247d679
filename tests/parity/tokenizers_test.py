#!/usr/bin/env python3
"""Tests that `ampctl data tokenize` writes the same tokens as the tokenizers of Hugging Face transformers make of the
same text.

Usage: tokenizers_test.py FOLDER_OF_BINARIES [REPORT.xml]. Needs no server and no network: vocabularies are trained
here.
"""
import array
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import numpy
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
from transformers import BertTokenizer, BertTokenizerFast, GPT2Tokenizer, GPT2TokenizerFast

from service_case import BINARIES, main


CORPUS = """In the beginning God created the heaven and the earth.  And the earth was without form, and void;
it's they're we'll I'm can't -- "quoted" (1611) 3.14 x2 100% $5 a_b#c@d e/f\tTAB\r\n
  indented    by spaces\n\n\nL'été, naïve café, Ängström, İstanbul, straße, Ørsted, Łódź, Ελλάδα, Москва, שָׁלוֹם, السَّلامُ
漢字かな交じり文、中国,한국어 텍스트. हिन्दी देवनागरी ไทย 🙂👩‍👩‍👧 e\u0301 \u00a0\u2003\u3000 ½ Ⅷ ٣ ² ﬁ\u00ad\u200b\ufeff
<|endoftext|> don\u2019t \u201cyes\u201d \u2014 \u2026 supercalifragilisticexpialidocious aaaaaaaaaaaaaaaaaaaa
"""
SPECIAL = "a [CLS] b [SEP] [UNK][MASK]c\n"  # BertTokenizer never splits special tokens
# Unicode categories of unassigned code points (Cn) and surrogates (Cs). Code points that an older version of Unicode
# does not assign are left out, because the compared libraries have different versions.
YOUNG = {"Cn", "Cs"}
# Code points whose lower case depends on their position in the word (the capital sigma).
SPECIAL_CASES = {0x3A3}


def assigned():
    """Returns every code point that Unicode 14 (Python 3.11) assigns, except SPECIAL_CASES."""
    return [chr(value) for value in range(0x110000)
            if unicodedata.category(chr(value)) not in YOUNG and value not in SPECIAL_CASES]


def settled():
    """Returns the assigned code points whose category has not changed since Unicode 3.2, because the tables of
    transformers' fast tokenizers are not the newest."""
    return [c for c in assigned() if unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)]


class Tokenizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ampd-tokenizers-"))
        (cls.folder / "corpus.txt").write_text(CORPUS * 3, encoding="utf-8", newline="")
        bpe = ByteLevelBPETokenizer()
        bpe.train([str(cls.folder / "corpus.txt")], vocab_size=600, min_frequency=2, show_progress=False)
        bpe.save_model(str(cls.folder))
        for cased in (False, True):
            pieces = BertWordPieceTokenizer(lowercase=not cased, strip_accents=not cased)
            pieces.train([str(cls.folder / "corpus.txt")], vocab_size=400, min_frequency=2, show_progress=False)
            pieces.save_model(str(cls.folder), f"{'cased' if cased else 'uncased'}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def ampctl(self, *arguments):
        done = subprocess.run([BINARIES / "ampctl", "data", "tokenize", *map(str, arguments), "--force", "-q"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tokens(self, text, *arguments):
        (self.folder / "in.txt").write_text(text, encoding="utf-8", newline="")
        self.ampctl(self.folder / "in.txt", self.folder / "out.bin", "--format", "uint32", *arguments)
        numbers = array.array("I")
        numbers.frombytes((self.folder / "out.bin").read_bytes())
        return numbers.tolist()

    def byte_pairs(self, text):
        return self.tokens(text, "--vocab", self.folder / "vocab.json", "--merges", self.folder / "merges.txt")

    def word_pieces(self, text, vocabulary="uncased-vocab.txt", *arguments):
        return self.tokens(text, "--vocab", self.folder / vocabulary, *arguments)

    def assert_same(self, ours, theirs, what):
        if ours != theirs:
            at = next((i for i, (one, other) in enumerate(zip(ours, theirs)) if one != other), min(len(ours), len(theirs)))
            self.fail(f"{what}: {len(ours)} tokens for {len(theirs)}, first different at {at}: "
                      f"{ours[at - 3:at + 5]} for {theirs[at - 3:at + 5]}")

    def test_byte_pairs_are_gpt2s(self):
        files = {"vocab_file": str(self.folder / "vocab.json"), "merges_file": str(self.folder / "merges.txt")}
        ours = self.byte_pairs(CORPUS)
        self.assertGreater(len(set(ours)), 100)
        for kind in (GPT2Tokenizer, GPT2TokenizerFast):
            theirs = kind(**files).encode(CORPUS, split_special_tokens=True)
            self.assert_same(ours, theirs, kind.__name__)

    def test_every_code_point_ends_words_as_gpt2s_pattern_does(self):
        # The vocabulary merges every pair of bytes, so that each boundary between words shows in the tokens.
        alphabet = sorted(json.loads((self.folder / "vocab.json").read_text()).items(), key=lambda entry: entry[1])
        letters = [token for token, _ in alphabet if len(token) == 1][:256]
        vocabulary = {token: number for number, token in enumerate(letters)}
        merges = [f"{left} {right}" for left in letters for right in letters]
        vocabulary.update({merge.replace(" ", ""): 256 + number for number, merge in enumerate(merges)})
        (self.folder / "pairs.json").write_text(json.dumps(vocabulary))
        (self.folder / "pairs.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        text = "".join(f"x{c}y {c}1{c} {c}\n" for c in assigned())
        ours = self.tokens(text, "--vocab", self.folder / "pairs.json", "--merges", self.folder / "pairs.txt")
        fast = GPT2TokenizerFast(vocab_file=str(self.folder / "pairs.json"), merges_file=str(self.folder / "pairs.txt"),
                                 unk_token=None, bos_token=None, eos_token=None)
        self.assert_same(ours, fast.encode(text), "GPT2TokenizerFast")

    def test_word_pieces_are_berts(self):
        # There is no case of BertTokenizer with cased text: it composes accents there, and the fast tokenizer does not.
        for kind, cased, text in ((BertTokenizer, False, CORPUS), (BertTokenizerFast, False, CORPUS + SPECIAL),
                                  (BertTokenizerFast, True, CORPUS + SPECIAL)):
            vocabulary = f"{'cased' if cased else 'uncased'}-vocab.txt"
            ours = self.word_pieces(text, vocabulary, *(["--cased"] if cased else []))
            self.assertGreater(len(set(ours)), 80)
            theirs = kind(vocab_file=str(self.folder / vocabulary), do_lower_case=not cased).encode(
                text, add_special_tokens=False, split_special_tokens=True)
            self.assert_same(ours, theirs, f"{kind.__name__} {vocabulary}")

    def test_every_code_point_is_cleaned_and_parted_as_berts(self):
        characters = sorted({one for c in assigned() for one in (c, *unicodedata.normalize("NFD", c))}
                            | {one for c in assigned() for one in unicodedata.normalize("NFD", c).lower()})
        single = [c for c in characters if not c.isspace() and unicodedata.category(c) != "Cc"]
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + single + [f"##{c}" for c in single]
        (self.folder / "single.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        for kind, cased, letters in ((BertTokenizer, False, assigned()), (BertTokenizerFast, False, settled()),
                                     (BertTokenizerFast, True, settled())):
            self.assertGreater(len(letters), 60_000)
            text = "".join(f"x{c}y {c} " for c in letters)
            ours = self.tokens(text, "--vocab", self.folder / "single.txt", *(["--cased"] if cased else []))
            peer = kind(vocab_file=str(self.folder / "single.txt"), do_lower_case=not cased)
            self.assert_same(ours, peer.encode(text, add_special_tokens=False), f"{kind.__name__} cased {cased}")

    def test_labelled_texts_stand_between_cls_and_sep(self):
        texts = ["The café's open.", "", "漢字 and " + "word " * 40]
        rows = "".join(json.dumps({"text": text, "label": i}) + "\n" for i, text in enumerate(texts))
        (self.folder / "in.jsonl").write_text(rows, encoding="utf-8")
        self.ampctl(self.folder / "in.jsonl", self.folder / "out.jsonl", "--jsonl", "--max-length", 24, "--vocab",
                    self.folder / "uncased-vocab.txt")
        written = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        fast = BertTokenizerFast(vocab_file=str(self.folder / "uncased-vocab.txt"))
        self.assertEqual(written, [{"input_ids": fast.encode(text, truncation=True, max_length=24), "label": i}
                                   for i, text in enumerate(texts)])

    def test_tables_of_pythons_csv_are_the_texts_that_were_written(self):
        """The tables have tabs or commas, and each way of quoting. Python's csv module writes them, as it does for
        pandas' to_csv."""
        random = numpy.random.default_rng(11)
        parts = ["a", "plain words", '"', '""', "\t", ",", "\n", "\n\n", "\r\n", "é", '"quoted"', " ", "x,y", "'"]
        texts = ["".join(random.choice(parts, random.integers(1, 8))) for _ in range(300)] + ['say "hi"', 'a"b\tc\nd']
        for delimiter in "\t,":
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC):
                for end in ("\n", "\r\n"):
                    with open(self.folder / "in.table", "w", encoding="utf-8", newline="") as file:
                        table = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
                        table.writerow(["id", "text", "label"])
                        table.writerows([number, text, number % 3] for number, text in enumerate(texts))
                    self.ampctl(self.folder / "in.table", self.folder / "out.jsonl", "--jsonl")
                    written = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
                    self.assertEqual([bytes(row["input_ids"]).decode() for row in written], texts, (delimiter, quoting, end))
                    self.assertEqual([row["label"] for row in written], [number % 3 for number in range(len(texts))])

    def test_a_table_without_csvs_quotes_keeps_its_marks(self):
        texts = ['"Hello," she said', 'the 5" disk', 'a "b" c', '"', "plain"]
        (self.folder / "in.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t1\n" for text in texts))
        self.ampctl(self.folder / "in.tsv", self.folder / "out.jsonl", "--jsonl")
        written = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        self.assertEqual([bytes(row["input_ids"]).decode() for row in written], texts)


if __name__ == "__main__":
    main()
