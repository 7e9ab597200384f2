#!/usr/bin/env python3
"""Makes tests/golden/families: tiny random checkpoints of model families, and what the reference
implementation computes with them.

Run by hand, in a virtual environment with torch==2.8.0, transformers==4.57.1, safetensors==0.8.0:
    python tests/golden/make_tiny_families.py
Weights follow from a seed per checkpoint, so that a second run writes the same files.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

HERE = pathlib.Path(__file__).resolve().parent
INPUT_IDS = [1, 5, 9, 2, 7, 3, 11, 4, 30, 17, 23, 8, 14, 6, 21, 10, 19, 12, 27, 13]
GREEDY_TOKENS = 6
# The attention pattern of policy sink2+6 at original positions: a query sees the first 2 tokens
# and those at most 6 before it.
SINKS, RECENT = 2, 6

LLAMA_LIKE = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                  bos_token_id=1, eos_token_id=2, pad_token_id=0)
FALCON = dict(vocab_size=32, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
              max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
LONG_FACTORS = [1.5, 3.0, 4.5, 6.0]
SHORT_FACTORS = [1.0, 1.1, 1.2, 1.4]

# name: (model_type, config)
CHECKPOINTS = {
    "phi3": ("phi3", dict(LLAMA_LIKE, sliding_window=7)),
    "phi3_partial": ("phi3", dict(LLAMA_LIKE, hidden_size=32, partial_rotary_factor=0.5,
                                  tie_word_embeddings=True)),
    "phi3_longrope_short": ("phi3", dict(
        LLAMA_LIKE, hidden_size=32, max_position_embeddings=128,
        original_max_position_embeddings=32,
        rope_scaling={"type": "longrope", "short_factor": SHORT_FACTORS,
                      "long_factor": LONG_FACTORS})),
    "phi3_longrope_long": ("phi3", dict(
        LLAMA_LIKE, hidden_size=32, max_position_embeddings=64,
        original_max_position_embeddings=16,
        rope_scaling={"type": "longrope", "short_factor": SHORT_FACTORS,
                      "long_factor": LONG_FACTORS})),
    "smollm3": ("smollm3", dict(LLAMA_LIKE, num_hidden_layers=4, no_rope_layer_interval=2,
                                rope_theta=2000000.0)),
    "smollm3_window": ("smollm3", dict(LLAMA_LIKE, num_hidden_layers=3, no_rope_layers=[1, 0, 1],
                                       use_sliding_window=True, sliding_window=5)),
    "gemma2": ("gemma2", dict(LLAMA_LIKE, num_hidden_layers=3, head_dim=8, sliding_window=5,
                              query_pre_attn_scalar=12, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0)),
    "gemma3_text": ("gemma3_text", dict(LLAMA_LIKE, num_hidden_layers=3, head_dim=8,
                                        sliding_window=5, sliding_window_pattern=3,
                                        query_pre_attn_scalar=20, rope_theta=1000000.0,
                                        rope_local_base_freq=100.0,
                                        rope_scaling={"rope_type": "linear", "factor": 8.0})),
    "olmo2": ("olmo2", dict(LLAMA_LIKE, rope_theta=500000.0)),
    "gpt2": ("gpt2", dict(vocab_size=32, n_embd=16, n_layer=2, n_head=4, n_positions=32,
                          bos_token_id=1, eos_token_id=2)),
    "cohere_qk_norm": ("cohere", dict(LLAMA_LIKE, use_qk_norm=True, logit_scale=0.8,
                                      rope_theta=75000000.0)),
    "cohere2": ("cohere2", dict(LLAMA_LIKE, num_hidden_layers=4, sliding_window=5, logit_scale=0.25,
                                rope_theta=50000.0)),
    "mixtral": ("mixtral", dict(LLAMA_LIKE, num_local_experts=5, num_experts_per_tok=3,
                                sliding_window=6)),
    "mpt_clip": ("mpt", dict(vocab_size=32, d_model=16, n_heads=4, n_layers=2, max_seq_len=64,
                             attn_config={"clip_qkv": 0.9})),
    "falcon_one_norm": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=3,
                                       num_ln_in_parallel_attn=1, bias=True, ffn_hidden_size=40)),
    "falcon_sequential": ("falcon", dict(FALCON, parallel_attn=False, multi_query=False)),
    "gpt_neox": ("gpt_neox", dict(vocab_size=32, hidden_size=32, intermediate_size=48,
                                  num_hidden_layers=2, num_attention_heads=4, rotary_pct=0.5,
                                  max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
                                  attention_bias=False, use_parallel_residual=True)),
}
# Models that also see images; only their text parts are computed.
TINY_EYES = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=4,
                 patch_size=2)
CHECKPOINTS |= {
    "gemma": ("gemma", dict(LLAMA_LIKE, head_dim=8)),
    "gemma3": ("gemma3", dict(
        text_config=dict(LLAMA_LIKE, model_type="gemma3_text", num_hidden_layers=3, head_dim=8, sliding_window=5,
                         sliding_window_pattern=3, query_pre_attn_scalar=8, rope_theta=1000000.0,
                         rope_local_base_freq=100.0, rope_scaling={"rope_type": "linear", "factor": 8.0}),
        vision_config=dict(TINY_EYES, model_type="siglip_vision_model"), mm_tokens_per_image=4)),
    "mistral3": ("mistral3", dict(
        text_config=dict(LLAMA_LIKE, model_type="mistral", sliding_window=None, head_dim=8),
        vision_config=dict(TINY_EYES, model_type="pixtral", head_dim=8), spatial_merge_size=1)),
}
# These compute attention without the interface that a pattern can be put into.
WITHOUT_PATTERN = {"mpt_clip", "falcon_one_norm", "falcon_sequential"}


def pattern_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0,
                      sliding_window=None, softcap=None, **kwargs):
    """Plain attention in which a query sees what sink2+6 leaves it, inside the model's window."""
    group = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(group, dim=1)
    value = value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    n = query.shape[2]
    distance = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    visible = (distance >= 0) & ((distance <= RECENT) | (torch.arange(n)[None, :] < SINKS))
    if sliding_window is not None:
        visible &= distance < sliding_window
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register("pattern", pattern_attention)


def fill(model, seed):
    """Random weights at which every detail of the arithmetic shows."""
    generator = torch.Generator().manual_seed(seed)
    gemma = "gemma" in model.config.model_type
    for name, tensor in sorted(model.named_parameters()):
        noise = torch.randn(tensor.shape, generator=generator)
        with torch.no_grad():
            if tensor.dim() > 1 and "norm" not in name:
                tensor.copy_(noise * 0.35)
            elif name.endswith("bias"):
                tensor.copy_(noise * 0.3)
            else:
                tensor.copy_(noise * 0.3 + (0.0 if gemma else 1.0))


def nll(logits, ids):
    return F.cross_entropy(logits[:-1].double(), ids[1:], reduction="none")


def compute(model, ids):
    """Logits of all rows and losses, by one pass without a cache."""
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0]
    return logits, nll(logits, ids)


def greedy(model, ids):
    for _ in range(GREEDY_TOKENS):
        logits, _ = compute(model, ids)
        ids = torch.cat([ids, logits[-1].argmax()[None]])
    return ids[-GREEDY_TOKENS:].tolist()


def rounded(values):
    return [round(float(value), 6) for value in values]


def stored_names(model_type, state):
    """GPT-2 files on the hub hold the bare model, Mistral's models with eyes the parts under older names."""
    if model_type == "mistral3":
        new_to_old = {"model.language_model.": "language_model.model.", "model.vision_tower.": "vision_tower.",
                      "model.multi_modal_projector.": "multi_modal_projector.", "lm_head.": "language_model.lm_head."}
        return {old + name.removeprefix(new): tensor for name, tensor in state.items()
                for new, old in new_to_old.items() if name.startswith(new)}
    if model_type != "gpt2":
        return state
    return {name.removeprefix("transformer."): tensor for name, tensor in state.items()}


def make(name, seed):
    model_type, settings = CHECKPOINTS[name]
    config = AutoConfig.for_model(model_type, **settings)
    kind = AutoModelForImageTextToText if "text_config" in settings else AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager")
    model = model.to(torch.float32).eval()
    fill(model, seed)
    model.tie_weights()

    folder = HERE / "families" / name
    folder.mkdir(parents=True, exist_ok=True)
    shared = set(getattr(model, "_tied_weights_keys", None) or [])
    tied = model.config.get_text_config().tie_word_embeddings
    state = {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()
             if not (tied and key in shared)}
    save_file(stored_names(model_type, state), folder / "model.safetensors")
    written = {"architectures": [type(model).__name__], "model_type": model_type, **settings}
    (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")

    ids = torch.tensor(INPUT_IDS)
    logits, losses = compute(model, ids)
    row = {"nll": rounded(losses), "last_logits": rounded(logits[-1]), "greedy": greedy(model, ids)}
    if name not in WITHOUT_PATTERN:
        model.set_attn_implementation("pattern")
        row["pattern_nll"] = rounded(compute(model, ids)[1])
    return row


def main():
    rows = {name: make(name, seed) for seed, name in enumerate(CHECKPOINTS, start=1)}
    lines = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    header = {
        "_about": "Tiny random checkpoints, one folder each: next-token NLL of input_ids, logits of "
                  "the last row, and the ids that greedy decoding goes on with; pattern_nll is the "
                  f"NLL where a query sees the first {SINKS} tokens and the {RECENT} before it. "
                  "float32. Written by make_tiny_families.py.",
        "_reference": f"transformers {transformers.__version__}, torch 2.8.0, CPU, attn eager",
        "input_ids": INPUT_IDS,
    }
    text = "{\n"
    text += "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    text += '"checkpoints": {\n' + ",\n".join(lines) + "\n}\n}\n"
    (HERE / "families" / "expected.json").write_text(text)


if __name__ == "__main__":
    main()
