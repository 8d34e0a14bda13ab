"""Writes codegen/lower/special_functions.inc: piecewise polynomials of the special functions that libclc lacks.

    python3 tools/special_functions.py > codegen/lower/special_functions.inc
    python3 tools/special_functions.py --values > tests/codegen/lower/special_values.inc

Needs mpmath. The values are what the tests compare with, at arguments that are fp32 numbers. Each function is interpolated at Chebyshev nodes in 60 digits; pieces are equally wide, so that a
multiplication finds the piece. A piece's polynomial is in x minus its centre: the middle, or a zero of the function in
the piece, as a sum of two doubles, so that the result is exact in relative terms around the zero as well.
"""
import sys

import mpmath as mp

mp.mp.dps = 60


def interpolate(f, low, high, centre, degree):
    """The coefficients of t = x - centre, lowest first; 0 for the constant one where the centre is a zero."""
    zero = abs(f(centre)) < mp.mpf(10) ** -40
    m = degree if zero else degree + 1  # f(x) / t, to one degree less
    half, middle = (high - low) / 2, (high + low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * m)) for k in range(m)]
    values = [f(x) / (x - centre) if zero else f(x) for x in nodes]
    # Newton's divided differences, then expanded around the centre.
    table = list(values)
    for j in range(1, m):
        for i in range(m - 1, j - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - j])
    poly = [mp.mpf(0)]
    for i in range(m - 1, -1, -1):
        shift = centre - nodes[i]
        poly = [(poly[k - 1] if k else 0) + (poly[k] * shift if k < len(poly) else 0) for k in range(len(poly) + 1)]
        poly[0] += table[i]
    return [mp.mpf(0)] + poly[:m] if zero else poly[:m]


def double(x):
    return float(mp.mpf(x))


def pieces(name, f, low, high, count, degree, zeros=()):
    width = (mp.mpf(high) - low) / count
    rows = []
    worst = mp.mpf(0)
    for i in range(count):
        a, b = low + i * width, low + (i + 1) * width
        inside = [z for z in zeros if a <= z < b]
        centre = inside[0] if inside else (a + b) / 2
        c = interpolate(f, a, b, centre, degree)
        first = double(centre)
        rows.append([first, double(centre - first)] + [double(x) for x in c])
        for k in range(40):
            x = a + (b - a) * (2 * k + 1) / 80
            t, exact = x - centre, f(x)
            value = mp.polyval([mp.mpf(v) for v in reversed(rows[-1][2:])], t)
            scale = abs(exact) if not inside else max(abs(exact), mp.mpf(10) ** -30)
            worst = max(worst, abs(value - exact) / scale)
    print(f"// {name}: {count} pieces of [{mp.nstr(mp.mpf(low), 6)}, {mp.nstr(mp.mpf(high), 6)}), "
          f"degree {degree}, relative error {mp.nstr(worst, 2)}")
    print(f"constexpr double k{name}[] = {{")
    for row in rows:
        text = ", ".join(v.hex() if v else "0" for v in row)
        print(f"    {text},")
    print("};")
    print(f"constexpr Pieces k{name}Pieces = {{\"{name}\", k{name}, {double(low)!r}, {double(1 / width)!r}, {count}, {degree}}};\n")


def zeros_of(f, guesses):
    return [mp.findroot(f, g) for g in guesses]


def phase_parts(order):
    """P and Q of Hankel's expansion: J = sqrt(2 / pi x) (P cos c - Q sin c), Y = ... (P sin c + Q cos c)."""
    def part(x, cosine):
        c = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        s = mp.sqrt(mp.pi * x / 2)
        return s * (j * mp.cos(c) + y * mp.sin(c)) if cosine else s * (y * mp.cos(c) - j * mp.sin(c))

    def of_square(cosine):
        def f(z):  # z = (8 / x)^2
            z = max(z, mp.mpf(10) ** -12)
            x = 8 / mp.sqrt(z)
            return part(x, cosine) * (1 if cosine else x / 8)
        return f
    return of_square(True), of_square(False)


def inverse_error(w):
    """erfinv(x) / x where w = -log(1 - x^2)."""
    if w < mp.mpf(10) ** -30:
        return mp.sqrt(mp.pi) / 2
    q = mp.exp(-w)  # 1 - x^2
    x = mp.sqrt(1 - q)
    tail = q / (1 + x)  # 1 - x
    if tail > mp.mpf(10) ** -3:
        return mp.erfinv(x) / x
    y = mp.sqrt(w)  # Newton's method on log erfc
    target = mp.log(tail)
    for _ in range(60):
        e = mp.erfc(y)
        step = (mp.log(e) - target) * e / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return y / x


def erfcx_scaled(t):
    """erfcx(x) (1 + 2 x) where t = 4 / (4 + x)."""
    t = max(t, mp.mpf(10) ** -9)
    x = 4 / t - 4
    if x > 100:
        term, total = mp.mpf(1), mp.mpf(1)
        for n in range(1, 25):
            term *= -mp.mpf(2 * n - 1) / (2 * x * x)
            total += term
        return total / (x * mp.sqrt(mp.pi)) * (1 + 2 * x)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def bessel_tail(order, u):
    """sqrt(x) e^-x I(x) where x = 8 / u."""
    if u > mp.mpf(1) / 32:
        x = 8 / u
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)
    term, total = mp.mpf(1), mp.mpf(1)
    for k in range(1, 60):
        term *= -mp.mpf(4 * order * order - (2 * k - 1) ** 2) * u / (8 * 8 * k)
        total += term
    return total / mp.sqrt(2 * mp.pi)


def values():
    """Rows of function, order, argument, value: arguments of all magnitudes, and near the zeros of the function."""
    import random
    import struct
    single = lambda x: struct.unpack("f", struct.pack("f", float(x)))[0]
    random.seed(1)
    spread = lambda low, high, n: [single(low + (high - low) * (random.random() + k) / n) for k in range(n)]
    small = [single(10.0 ** -k * 1.7) for k in (1, 2, 4, 7, 12, 20, 30)]
    cumulative = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
    inverse_tail = lambda x: (inverse_error(-mp.log(x * (2 - x))) * (1 - x)) if x != 1 else mp.mpf(0)
    table = {
        "erfcx": (lambda x: mp.exp(mp.mpf(x) ** 2) * mp.erfc(x), spread(-9, 9, 24) + small + [100.5, 3e4, 1e20, -20.25]),
        "erfinv": (lambda x: mp.mpf(x) * inverse_error(-mp.log((1 - mp.mpf(x)) * (1 + mp.mpf(x)))),
                   spread(-1, 1, 24) + small + [single(1 - 2.0 ** -k) for k in (4, 10, 16, 20, 24)]),
        "erfcinv": (lambda x: inverse_tail(mp.mpf(x)),
                    spread(0, 2, 24) + small + [single(2 - 2.0 ** -k) for k in (4, 10, 16, 20)]),
        "normcdf": (lambda x: cumulative(mp.mpf(x)), spread(-12, 6, 30) + small),
        "normcdfinv": (lambda x: -mp.sqrt(2) * inverse_tail(2 * mp.mpf(x)),
                       spread(0, 1, 24) + small + [single(1 - 2.0 ** -k) for k in (4, 10, 16, 20)]),
        "j0": (lambda x: mp.besselj(0, x), spread(-8, 8, 32) + small + [single(2.404825557695773), 2.4, 5.52]),
        "j1": (lambda x: mp.besselj(1, x), spread(-8, 8, 32) + small + [single(3.8317059702075125), 7.0156]),
        "y0": (lambda x: mp.bessely(0, x), spread(0, 8, 32) + small + [single(0.8935769662791675), 3.9577]),
        "y1": (lambda x: mp.bessely(1, x), spread(0, 8, 32) + small[:5] + [single(2.197141326031017), 5.4297]),
        "cyl_bessel_i0": (lambda x: mp.besseli(0, x), spread(-30, 30, 30) + small + [80.5, 88.5]),
        "cyl_bessel_i1": (lambda x: mp.besseli(1, x), spread(-30, 30, 30) + small + [80.5, 88.5]),
    }
    far = spread(8, 60, 12)
    print("// Written by tools/special_functions.py --values: function, order, argument, value.\n// clang-format off")

    def row(name, order, x, value):
        x = single(x)
        print(f'{{"{name}", {order}, {x.hex()}, {mp.nstr(value, 21)}L}},')

    for name, (f, arguments) in table.items():
        for x in arguments:
            row(name, 0, x, f(mp.mpf(single(x))))
    for name, f in (("j0", mp.besselj), ("y0", mp.bessely), ("j1", mp.besselj), ("y1", mp.bessely)):
        for x in far:
            row("far " + name, 0, x, f(int(name[1]), mp.mpf(single(x))))
    for order in (0, 1, 2, 3, 10, 40, 128, -3):
        for x in (0.3, 2.0, 9.5, 30.25, 100.0, 128.5, 300.0):
            row("jn", order, x, mp.besselj(order, mp.mpf(single(x))))
            if abs(order) < 40 or x > 1.5 * abs(order):
                row("yn", order, x, mp.bessely(order, mp.mpf(single(x))))
    print("// clang-format on")


def main():
    print("// Written by tools/special_functions.py.\n// clang-format off\n")
    j0, j1 = (lambda x: mp.besselj(0, x)), (lambda x: mp.besselj(1, x))
    y0, y1 = (lambda x: mp.bessely(0, x)), (lambda x: mp.bessely(1, x))
    pieces("J0", j0, 0, 8, 16, 13, zeros_of(j0, [2.4, 5.5]))
    pieces("J1", j1, 0, 8, 16, 13, [mp.mpf(0)] + zeros_of(j1, [3.8, 7.0]))
    pieces("Y0", y0, mp.mpf(1) / 2, 8, 15, 22, zeros_of(y0, [0.89, 3.96, 7.09]))
    pieces("Y1", y1, mp.mpf(1) / 2, 8, 15, 22, zeros_of(y1, [2.2, 5.43]))
    # What is left of Y near 0 without its logarithm (and its pole), in x^2.
    tiny = lambda z: max(z, mp.mpf(10) ** -16)
    pieces("Y0Rest", lambda z: (lambda x: y0(x) - 2 / mp.pi * mp.log(x) * j0(x))(mp.sqrt(tiny(z))), 0, 0.25, 1, 8)
    pieces("Y1Rest", lambda z: (lambda x: (y1(x) - 2 / mp.pi * (mp.log(x) * j1(x) - 1 / x)) / x)(mp.sqrt(tiny(z))), 0,
           0.25, 1, 8)
    for order in (0, 1):
        p, q = phase_parts(order)
        pieces(f"P{order}", p, 0, 1, 2, 9)
        pieces(f"Q{order}", q, 0, 1, 2, 9)
    for order in (0, 1):
        scaled = lambda x: mp.exp(-x) * mp.besseli(order, x)
        pieces(f"I{order}", scaled, 0, 8, 8, 15, [mp.mpf(0)] if order else ())
        pieces(f"I{order}Tail", lambda u: bessel_tail(order, u), mp.mpf(0), 1, 8, 10)
    pieces("Erfcx", erfcx_scaled, 0, 1, 16, 11)
    pieces("ErfInv", inverse_error, 0, 40, 40, 12)
    pieces("ErfInvTail", lambda s: inverse_error(s * s), 6, 28, 22, 9)
    print("// clang-format on")


if __name__ == "__main__":
    values() if "--values" in sys.argv else main()
