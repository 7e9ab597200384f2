"""Writes a checkpoint of random bf16 weights in Hugging Face's layout: right shapes, no sense.

    python3 tests/random_checkpoint.py FOLDER 7b|tiny [LAYERS]

`7b` has the shapes of Mistral-7B (14.5 GB with all 32 layers), `tiny` those of a test. Speed does not depend on what
weights say.
"""
import json
import os
import sys
from pathlib import Path

SHAPES = {
    "7b": dict(hidden=4096, layers=32, heads=32, kv_heads=8, ffn=14336, vocabulary=32000, positions=262144),
    "tiny": dict(hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, vocabulary=100, positions=512),
}
BLOCK_VALUES = 1 << 23  # drawn once, written again and again
ONE = b"\x80\x3f"       # 1.0 as bf16


def tensors(shape):
    """[(name, dimensions)] in the order of the file."""
    hidden, ffn = shape["hidden"], shape["ffn"]
    kv = hidden // shape["heads"] * shape["kv_heads"]
    rows = [("model.embed_tokens.weight", [shape["vocabulary"], hidden])]
    for layer in range(shape["layers"]):
        of_layer = [("self_attn.q_proj", [hidden, hidden]), ("self_attn.k_proj", [kv, hidden]),
                    ("self_attn.v_proj", [kv, hidden]), ("self_attn.o_proj", [hidden, hidden]),
                    ("mlp.gate_proj", [ffn, hidden]), ("mlp.up_proj", [ffn, hidden]), ("mlp.down_proj", [hidden, ffn]),
                    ("input_layernorm", [hidden]), ("post_attention_layernorm", [hidden])]
        rows += [(f"model.layers.{layer}.{name}.weight", dimensions) for name, dimensions in of_layer]
    return rows + [("model.norm.weight", [hidden]), ("lm_head.weight", [shape["vocabulary"], hidden])]


def count(dimensions):
    values = 1
    for n in dimensions:
        values *= n
    return values


def random_block():
    """Numbers of random sign between 2^-7 and 2^-5, so that rows of 4096 keep the size of what they multiply."""
    block = bytearray(2 * BLOCK_VALUES)
    block[0::2] = os.urandom(BLOCK_VALUES)
    block[1::2] = os.urandom(BLOCK_VALUES).translate(bytes(0x3C if i < 128 else 0xBC for i in range(256)))
    return memoryview(block)


def write(folder, shape):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": shape["vocabulary"],
        "hidden_size": shape["hidden"], "intermediate_size": shape["ffn"], "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"], "num_key_value_heads": shape["kv_heads"],
        "max_position_embeddings": shape["positions"], "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "tie_word_embeddings": False, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
        "torch_dtype": "bfloat16"}, indent=1))
    header, offset = {}, 0
    for name, dimensions in tensors(shape):
        end = offset + 2 * count(dimensions)
        header[name] = {"dtype": "BF16", "shape": dimensions, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = random_block()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, dimensions in tensors(shape):
            if len(dimensions) == 1:
                file.write(ONE * count(dimensions))
                continue
            left = 2 * count(dimensions)
            while left > 0:
                left -= file.write(block[:min(left, len(block))])


if __name__ == "__main__":
    shape = SHAPES[sys.argv[2]]
    write(Path(sys.argv[1]), {**shape, "layers": int(sys.argv[3])} if len(sys.argv) > 3 else shape)
