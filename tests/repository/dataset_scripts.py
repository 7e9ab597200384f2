"""The scripts and manifests of datasets/: folders arrive whole or not at all, R data is read, files have the right form."""
import bz2
import contextlib
import io
import json
import lzma
import os
import re
import struct
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "datasets"))
import cache  # noqa: E402
import make_books  # noqa: E402
import make_smollm2  # noqa: E402
import make_tokenizers  # noqa: E402

DATASETS = Path(cache.__file__).parent
HELLO_SHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


class Manifests(unittest.TestCase):
    def test_each_has_the_documented_form(self):
        manifests = sorted(DATASETS.rglob("*.json"))
        self.assertEqual([path.stem for path in manifests], ["janeausten", "smollm2-135m-instruct", "pg19-test", "real-tokenizers"])
        for path in manifests:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(manifest["name"], path.stem)
            formats = {"smollm2-135m-instruct": "checkpoint", "real-tokenizers": "tokenizers"}
            self.assertEqual(manifest["format"], formats.get(path.stem, "text"))
            self.assertTrue(manifest["licence"] and manifest["path"].endswith(path.stem))
            names = [entry["name"] for entry in manifest["files"]]
            self.assertEqual(len(set(names)), len(names))
            for entry in manifest["files"]:
                self.assertRegex(entry["sha256"], r"^[0-9a-f]{64}$")
                self.assertGreater(entry["bytes"], 0)

    def test_tokenizers_come_from_the_members_named(self):
        manifest = json.loads(make_tokenizers.MANIFEST.read_text(encoding="utf-8"))
        members = [name for package in manifest["source"]["packages"] for name in package["members"].values()]
        self.assertEqual(members, [entry["name"] for entry in manifest["files"]])

    def test_pg19_is_the_whole_test_split_in_its_official_order(self):
        files = json.loads((DATASETS / "pg19-test.json").read_text(encoding="utf-8"))["files"]
        ids = [entry["name"].removesuffix(".txt") for entry in files]
        self.assertEqual((len(ids), ids[0], ids[-1]), (100, "10146", "9931"))
        self.assertEqual(ids, sorted(ids))
        self.assertEqual(sum(entry["bytes"] for entry in files), 41289101)


class Ensure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kvbench data ")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.addCleanup(os.environ.pop, "KVBENCH_CACHE", None)
        os.environ["KVBENCH_CACHE"] = str(self.root / "cache")
        self.manifest = self.root / "m.json"
        self.manifest.write_text(json.dumps({"name": "m", "path": "books/m", "files": [
            {"name": "a.txt", "bytes": 5, "sha256": HELLO_SHA256}]}))
        self.target = self.root / "cache" / "books" / "m"
        self.calls = 0

    def ensure(self, text="hello"):
        def make(work, out, manifest):
            self.calls += 1
            (work / "scratch").write_text("x")
            (out / "a.txt").write_text(text)

        with contextlib.redirect_stdout(io.StringIO()):
            cache.ensure(self.manifest, make)

    def test_an_intact_folder_is_made_once(self):
        self.ensure()
        self.ensure()
        self.assertEqual((self.calls, (self.target / "a.txt").read_text()), (1, "hello"))
        self.assertEqual(os.listdir(self.target.parent), ["m"])

    def test_a_damaged_folder_is_made_anew(self):
        self.ensure()
        (self.target / "a.txt").write_text("jello")
        self.ensure()
        self.assertEqual((self.calls, (self.target / "a.txt").read_text()), (2, "hello"))

    def test_a_wrong_result_is_refused_and_leaves_nothing(self):
        for text in ("jello", "hello and more"):
            with self.assertRaisesRegex(cache.SetupError, "a.txt has"):
                self.ensure(text)
        self.assertEqual(os.listdir(self.target.parent), [])


class RDataReader(unittest.TestCase):
    def chars(self, text):
        encoded = text.encode()
        return struct.pack(">ii", 0x00040009, len(encoded)) + encoded

    def strings(self, *texts):
        return struct.pack(">ii", 16, len(texts)) + b"".join(self.chars(text) for text in texts)

    def stream(self, item):
        return b"X\n" + struct.pack(">iii", 3, 0x040102, 0x030500) + struct.pack(">i", 5) + b"UTF-8" + item

    def test_a_named_list_becomes_a_dict(self):
        names_tag = struct.pack(">i", 1) + self.chars("names")
        attributes = struct.pack(">i", 0x402) + names_tag + self.strings("one", "two") + struct.pack(">i", 254)
        integers = struct.pack(">iiii", 13, 2, 7, -1)
        item = struct.pack(">ii", 0x200 | 19, 2) + integers + self.strings("é", "") + attributes
        self.assertEqual(make_books.RData(self.stream(item)).item(), {"one": [7, -1], "two": ["é", ""]})

    def test_other_types_and_formats_are_refused(self):
        with self.assertRaisesRegex(cache.SetupError, "type 3 "):
            make_books.RData(self.stream(struct.pack(">i", 3))).item()
        with self.assertRaisesRegex(cache.SetupError, "begins with"):
            make_books.RData(b"A\n2\n")

    def test_blocks_of_each_compression_unpack(self):
        data = b"It is a truth universally acknowledged" * 9
        size = struct.pack(">I", len(data))
        raw = lzma.compress(data, format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
        for packed in (zlib.compress(data), b"2" + bz2.compress(data), b"Z" + raw):
            self.assertEqual(make_books.inflate(size + packed), data)
        with self.assertRaisesRegex(cache.SetupError, "expected 1"):
            make_books.inflate(struct.pack(">I", 1) + zlib.compress(data))


class Checkpoint(unittest.TestCase):
    def test_safetensors_layout(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            make_smollm2.write_safetensors(path, {"b": ([1], b"\1\2"), "a": ([2, 1], b"\3\4\5\6")})
            data = path.read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + length])
        self.assertEqual(length % 8, 0)
        self.assertEqual(data[8 + length:], b"\3\4\5\6\1\2")
        self.assertEqual(header["b"], {"dtype": "BF16", "shape": [1], "data_offsets": [4, 6]})

    def test_every_tensor_of_the_manifest_has_a_gguf_name(self):
        parts = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]
        names = ["token_embd.weight", "output_norm.weight"]
        names += [f"blk.{layer}.{part}.weight" for layer in range(30) for part in parts]
        manifest = json.loads(make_smollm2.MANIFEST.read_text(encoding="utf-8"))
        self.assertEqual(sorted(map(make_smollm2.hugging_face_name, names)), sorted(manifest["tensors"]))

    def test_tokenizer_json_marks_special_tokens(self):
        made = make_smollm2.tokenizer_json(["<unk>", "<bos>", "a", "b", "ab"], [3, 3, 1, 1, 1], ["a b"], bos=1)
        self.assertEqual([(t["id"], t["content"]) for t in made["added_tokens"]], [(0, "<unk>"), (1, "<bos>")])
        self.assertEqual((made["model"]["merges"], made["model"]["vocab"]["ab"]), ([["a", "b"]], 4))
        self.assertTrue(re.search("<bos>", json.dumps(made["post_processor"])))


if __name__ == "__main__":
    unittest.main()
