"""The peers of peers.py that run in PyTorch: transformers as it is, the published StreamingLLM loop on top of it, and
kvpress. Each is made of (arguments, dtype, ids) and has one method per work, which returns tokens per second."""
import os
import time
import types

import torch
import transformers
from peers import DEPTH, KEPT, LONG, PREFILL, RECENT, SINKS, STEPS

TORCH_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.set_grad_enabled(False)
transformers.logging.set_verbosity_error()


def load(folder, dtype, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=TORCH_TYPES[dtype], **options).eval()


class Transformers:
    def __init__(self, arguments, dtype, ids):
        self.model = load(arguments.model, dtype)
        self.ids = torch.tensor([ids])

    def prefill(self):
        ids = self.ids[:, :PREFILL]
        start = time.perf_counter()
        logits = self.model(ids).logits[0, :-1].float()
        torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
        return PREFILL / (time.perf_counter() - start)

    def decode_after(self, cache, first):
        start = time.perf_counter()
        for i in range(first, first + STEPS):
            self.model(self.ids[:, i:i + 1], past_key_values=cache)
        return STEPS / (time.perf_counter() - start)

    def decode(self):
        return self.decode_after(self.model(self.ids[:, :DEPTH], logits_to_keep=1).past_key_values, DEPTH)

    def stream(self):
        """Once the cache is full."""
        first = SINKS + RECENT
        cache = self.model(self.ids[:, :first], logits_to_keep=1).past_key_values
        start = time.perf_counter()
        for i in range(first, first + STEPS):
            logits = self.model(self.ids[:, i:i + 1], past_key_values=cache).logits[0].float()
            torch.nn.functional.cross_entropy(logits, self.ids[0, i + 1:i + 2])
            for layer in cache.layers:
                layer.keys = torch.cat([layer.keys[:, :, :SINKS], layer.keys[:, :, -RECENT:]], dim=2)
                layer.values = torch.cat([layer.values[:, :, :SINKS], layer.values[:, :, -RECENT:]], dim=2)
        return STEPS / (time.perf_counter() - start)


def turn(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


def shifted_attention(self, hidden_states, past_key_values=None, **_):
    """Attention with positions inside the cache: keys lie there unturned, and all of them are turned at each call."""
    batch, n, _ = hidden_states.shape
    q, k, v = (projection(hidden_states).view(batch, n, -1, self.head_dim).transpose(1, 2)
               for projection in (self.q_proj, self.k_proj, self.v_proj))
    k, v = past_key_values.update(k, v, self.layer_idx)
    total = k.shape[2]
    cos, sin = self.tables[0][:total], self.tables[1][:total]
    q, k = turn(q, cos[total - n:], sin[total - n:]), turn(k, cos, sin)
    k, v = (x.repeat_interleave(self.num_key_value_groups, dim=1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * self.scaling
    if n > 1:
        scores = scores + torch.full((n, total), float("-inf"), dtype=q.dtype).triu(total - n + 1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return self.o_proj((weights @ v).transpose(1, 2).reshape(batch, n, -1)), None


class Published(Transformers):
    def __init__(self, arguments, dtype, ids):
        super().__init__(arguments, dtype, ids)
        positions = torch.arange(SINKS + RECENT + 1)[None]
        cos, sin = self.model.model.rotary_emb(self.model.lm_head.weight, positions)
        for layer in self.model.model.layers:
            layer.self_attn.tables = cos[0], sin[0]
            layer.self_attn.forward = types.MethodType(shifted_attention, layer.self_attn)


class KvPress(Transformers):
    """SnapKV on a prompt, then decoding from what it left."""

    def __init__(self, arguments, dtype, ids):
        super().__init__(arguments, dtype, ids)
        import kvpress
        self.press = kvpress.SnapKVPress(compression_ratio=1 - KEPT / LONG)

    def snapkv(self):
        cache = transformers.DynamicCache()
        with self.press(self.model):
            self.model(self.ids[:, :LONG], past_key_values=cache, logits_to_keep=1)
        return self.decode_after(cache, LONG)
