"""Random numbers on a CUDA device: the same as in memory, keyed by (seed, step, list, document)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def own_list(offsets):
    """Return the list of a program that takes a whole one, its start and its length."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    return query, start, (tl.load(offsets + query + 1) - start).to(tl.int32)


@triton.jit
def uniforms(seed, query, step, stream, document):
    """Return the uniform number of each document and those of its pair, as `kernels.randomness.fill_uniform`."""
    zero = document * 0
    w0, w1, w2, w3 = tl.philox(seed, document // 4, zero + query, zero + step, zero + stream)
    late = document % 4 >= 2
    first = (tl.where(late, w2, w0).to(tl.float64) + 0.5) * 2.3283064365386963e-10
    second = (tl.where(late, w3, w1).to(tl.float64) + 0.5) * 2.3283064365386963e-10
    return tl.where(document % 2 == 1, second, first), first, second


@triton.jit
def _minus_log(x):
    """``-log x``, as `kernels.normal.minus_log` computes it."""
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = (bits - (exponent << 52)).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    third: tl.constexpr = 1 / 3
    seventh: tl.constexpr = 1 / 7
    ninth: tl.constexpr = 1 / 9
    eleventh: tl.constexpr = 1 / 11
    artanh = s * (1.0 + q * (third + q * (0.2 + q * (seventh + q * (ninth + q * eleventh)))))
    return -(exponent.to(tl.float64) * 0.6931471805599453 + 2.0 * artanh)


@triton.jit
def noise_kernel(offsets, seed, step, stream, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Fill the noise of every document of a list.

    The kinds ``"four gumbel"`` and ``"four normal"`` are those of `kernels.randomness`, where four documents share a
    block of four words; ``"words"``, ``"normal"``, ``"logistic"`` and ``"gumbel"`` are those of `kernels.normal`, where
    64 documents share 16 blocks.
    """
    query, start, n = own_list(offsets)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        if KIND == "four gumbel":
            noise = -tl.log(-tl.log(uniforms(seed, query, step, stream, p)[0]))
        elif KIND == "four normal":
            _, first, second = uniforms(seed, query, step, stream, p)
            angle = 6.283185307179586 * second
            noise = tl.sqrt(-2.0 * tl.log(first)) * tl.where(p % 2 == 1, tl.sin(angle), tl.cos(angle))
        else:
            zero = p * 0
            w0, w1, w2, w3 = tl.philox(seed, 16 * (p // 64) + p % 16, zero + query, zero + step, zero + stream)
            which = p % 64 // 16
            noise = tl.where(which == 0, w0, tl.where(which == 1, w1, tl.where(which == 2, w2, w3))).to(tl.float64)
            below = noise + 0.5
            above = 4294967296.0 - below
            if KIND == "normal":
                v = _minus_log(below * above * 2.168404344971009e-19)
                a = 0.001144983021 + v * (6.124274347e-05 + v * 2.034873409e-07)
                a = 1.253314108 + v * (0.4469247174 + v * (0.0910093726 + v * (0.01255141641 + v * a)))
                b = 0.002308084904 + v * (0.0002533391286 + v * 3.914180559e-06)
                b = 1.0 + v * (0.09479435307 + v * (0.03476822871 + v * b))
                noise = (below - above) * 2.3283064365386963e-10 * a / b
            elif KIND == "gumbel":
                noise = _minus_log(_minus_log(below * 2.3283064365386963e-10))
            elif KIND != "words":
                noise = -_minus_log(below / above)
        tl.store(out + start + p, noise, p < n)
