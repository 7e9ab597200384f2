"""llama.cpp as a peer of peers.py, through llama-cpp-python's own calls. The checkpoint (of the Llama family) is
written as a GGUF file of the same dtype first; ids go in and logits come out, so it has no tokenizer."""
import ctypes
import json
import os
import pathlib
import tempfile
import time

import gguf
import llama_cpp
import numpy
import torch
from peers import DEPTH, PREFILL, STEPS
from safetensors import safe_open

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
       "lm_head.weight": "output.weight"}


def gguf_name(name):
    if name in TOP:
        return TOP[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def interleaved(weight, heads):
    """Rows of a head in pairs: llama.cpp turns neighbours where the checkpoint turns halves."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(folder, dtype, path):
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                weight = tensors.get_tensor(name).float()
                for part, n in heads.items():
                    if part in name:
                        weight = interleaved(weight, n)
                if dtype == "f32" or weight.dim() == 1:
                    writer.add_tensor(gguf_name(name), weight.numpy())
                else:
                    bits = weight.to(torch.bfloat16).contiguous().view(torch.int16).numpy()
                    writer.add_tensor(gguf_name(name), bits.view(numpy.uint8),
                                      raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    def __init__(self, arguments, dtype, ids):
        self.ids = ids
        self.log = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            write_gguf(arguments.model, dtype, path)
            options = llama_cpp.llama_model_default_params()
            options.use_mmap = False
            self.model = llama_cpp.llama_load_model_from_file(str(path).encode(), options)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = 4096, PREFILL, 512
        options.n_threads = options.n_threads_batch = len(os.sched_getaffinity(0))
        self.context = llama_cpp.llama_new_context_with_model(self.model, options)

    def feed(self, ids):
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        assert status == 0, f"llama_decode returned {status}"

    def start(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def likeliest(self, n):
        """The id that follows ids[:n]: a check that both read the same model."""
        self.start()
        self.feed(self.ids[:n])
        size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(numpy.argmax(numpy.ctypeslib.as_array(logits, shape=(size,))))

    def prefill(self):
        self.start()
        start = time.perf_counter()
        self.feed(self.ids[:PREFILL])
        llama_cpp.llama_synchronize(self.context)
        return PREFILL / (time.perf_counter() - start)

    def decode(self):
        self.start()
        self.feed(self.ids[:DEPTH])
        start = time.perf_counter()
        for i in range(DEPTH, DEPTH + STEPS):
            self.feed(self.ids[i:i + 1])
            llama_cpp.llama_synchronize(self.context)
        return STEPS / (time.perf_counter() - start)
