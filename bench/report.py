"""What rows.py, scans.py and gemm.py say: tables, Markdown, and a plot as SVG."""

import html
import statistics


def table(rows):
    lines = [f"{'case':34s} {'GB/s':>6s} {'tegula':>8s} {'triton':>8s} {'compile':>8s} {'torch':>8s} {'ratio':>6s} {'alone':>6s} "
             f"{'A/A':>6s} {'of copy':>7s}  Tegula's | Triton's configuration"]
    for r in rows:
        us, ratio = r["us"], {k: v["median"] for k, v in r["ratios"].items()}

        def figure(values, key, width, digits):
            return f"{values[key]:{width}.{digits}f}" if key in values else f"{'-':>{width}s}"

        copy = f"{us['copy'] / us['tegula']:7.3f}" if "copy" in us else f"{'-':>7s}"
        lines.append(f"{r['case']:34s} {r['bytes'] / us['tegula'] / 1e3:6.0f} {figure(us, 'tegula', 8, 2)} {figure(us, 'triton', 8, 2)} "
                     f"{figure(us, 'torch.compile', 8, 2)} {figure(us, 'torch', 8, 2)} {figure(ratio, 'best other', 6, 3)} "
                     f"{figure(ratio, 'alone', 6, 3)} {figure(ratio, 'A/A', 6, 3)} {copy}  "
                     f"{r['best']['tegula']} | {r['best'].get('triton', '-')}")
        if "separate" in us:
            lines.append(f"{'':34s} separate kernels {us['separate']:.2f} us: {ratio['separate']:.2f} times the fused one's; "
                         f"by bytes {r['traffic_ratio']:.2f}")
    return "\n".join(lines)


def markdown(report):
    out = [f"# Memory-bound kernels: figures of one run\n\nWritten by `bench/rows.py` on {report['date']}: {report['device']}, "
           f"driver {report['driver']}, torch {report['torch']}, triton {report['triton']}; {report['pairs']} interleaved rounds. "
           "Times in microseconds are medians. *Ratio* is the better of Triton and torch.compile (softmax: Triton) over Tegula, "
           "the median of the rounds' ratios: above 1 Tegula is faster. *Alone* is the same with Tegula's launches not allowed "
           "to overlap the kernel ahead (dependent launch, which only Tegula uses). *A/A* is Tegula against itself. *Copy* is "
           "Tegula's bandwidth over that of torch's copy of the same matrix.\n",
           "| case | GB/s | Tegula | Triton | torch.compile | torch | ratio | alone | A/A | copy |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for r in report["rows"]:
        us, ratio = r["us"], {k: v["median"] for k, v in r["ratios"].items()}
        cell = lambda values, key, digits: f"{values[key]:.{digits}f}" if key in values else ""
        copy = f"{us['copy'] / us['tegula']:.3f}" if "copy" in us else ""
        out.append(f"| {r['case']} | {r['bytes'] / us['tegula'] / 1e3:.0f} | {cell(us, 'tegula', 2)} | {cell(us, 'triton', 2)} | "
                   f"{cell(us, 'torch.compile', 2)} | {cell(us, 'torch', 2)} | {cell(ratio, 'best other', 3)} | "
                   f"{cell(ratio, 'alone', 3)} | {cell(ratio, 'A/A', 3)} | {copy} |")
    fused = [r for r in report["rows"] if "separate" in r["us"]]
    if fused:
        out += ["\n| fused | separate kernels, us | speed-up | ratio of bytes | speed-up / ratio |", "|---|---|---|---|---|"]
        out += [f"| {r['case']} | {r['us']['separate']:.2f} | {r['ratios']['separate']['median']:.2f} | {r['traffic_ratio']:.2f} | "
                f"{r['ratios']['separate']['median'] / r['traffic_ratio']:.3f} |" for r in fused]
    return "\n".join(out) + "\n"


def scans_markdown(report):
    out = [f"Written by `bench/scans.py` on {report['date']}: {report['device']}, driver {report['driver']}, torch {report['torch']}, "
           f"triton {report['triton']}; {report['pairs']} interleaved rounds. Times in microseconds are medians; Triton runs the same "
           "text. *Best* and *vs Triton* are the time of the fastest other way, and Triton's, over Tegula's, medians of the rounds' "
           "ratios: above 1 Tegula is faster. *Copy* is the time of a copy of the input over Tegula's.\n",
           "| case | GB/s | Tegula | Triton | torch.compile | torch | best | vs Triton | A/A | copy |", "|" + "---|" * 10]
    for r in report["rows"]:
        us, ratio = r["us"], {k: v["median"] for k, v in r["ratios"].items()}
        out.append(f"| {r['case']} | {r['bytes'] / us['tegula'] / 1e3:.0f} | " +
                   " | ".join(f"{us[name]:.2f}" for name in ("tegula", "triton", "torch.compile", "torch")) +
                   f" | {ratio['best other']:.3f} | {ratio['triton']:.3f} | {ratio['A/A']:.3f} | {us['copy'] / us['tegula']:.3f} |")
    return "\n".join(out) + "\n"


def plot(rows, title):
    """GB/s over the number of columns, for Tegula, Triton, torch and the copy, as SVG."""
    width, height, left, top = 760, 420, 70, 40
    colours = {"tegula": "#c0392b", "triton": "#2c6fbb", "torch": "#7f8c8d", "copy": "#27ae60"}
    cols = [r["cols"] for r in rows]
    highest = 1000 * (1 + int(max(r["bytes"] / us / 1e3 for r in rows for k, us in r["us"].items() if k in colours) // 1000))
    x = lambda i: left + (width - left - 20) * i / max(1, len(cols) - 1)
    y = lambda gb: height - 50 - (height - 50 - top) * gb / highest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="22" font-size="15">{html.escape(title)}</text>']
    for gb in range(0, highest + 1, 1000):
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(gb):.1f}" y2="{y(gb):.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y(gb) + 4:.1f}" text-anchor="end">{gb}</text>')
    out += [f'<text x="{x(i):.1f}" y="{height - 30}" text-anchor="middle">{n}</text>' for i, n in enumerate(cols)]
    out.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">columns</text><text x="16" y="{top - 8}">GB/s</text>')
    for k, (name, colour) in enumerate(colours.items()):
        points = [(x(i), y(r["bytes"] / r["us"][name] / 1e3)) for i, r in enumerate(rows) if name in r["us"]]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        out.append(f'<text x="{width - 90}" y="{height - 130 + 16 * k}" fill="{colour}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


# ---- Matrix products (gemm.py).

GEMM_ARMS = ["tegula", "triton", "tma", "torch", "cublaslt", "torch.compile"]


def gemm_cells(r):
    """TFLOP/s of each way, then ratios: best other, Triton's pointer kernel, activation's cost, A/A; "" where missing."""
    tflops = [f"{r['flops'] / r['us'][arm] / 1e6:.1f}" if arm in r["us"] else "" for arm in GEMM_ARMS]
    ratios = [f"{r['ratios'][k]['median']:.3f}" if k in r["ratios"] else "" for k in ("best other", "triton", "activation", "A/A")]
    return tflops + ratios + [f"{r['error']:.1e}"]


def add_means(found, what, rows):
    if rows:
        best = [r["ratios"]["best other"]["median"] for r in rows]
        pointer = [r["ratios"]["triton"]["median"] for r in rows]
        found[what] = (f"{len(rows)} cases, best other's time over Tegula's: geometric mean {statistics.geometric_mean(best):.3f}, least "
                       f"{min(best):.3f}; Triton's pointer kernel: {statistics.geometric_mean(pointer):.3f}, least {min(pointer):.3f}")


def gemm_summary(rows):
    """{what: figure} of the geometric means over the large shapes and the irregular ones, and of the path without wgmma."""
    found = {}
    irregular = lambda r: r["case"].startswith("irregular")
    for gelu in (False, True):
        large = [r for r in rows if ("GELU" in r["case"]) == gelu and r["flops"] > 1e11 and not irregular(r)]
        add_means(found, "large" + " with GELU" * gelu, large)
    add_means(found, "irregular", [r for r in rows if irregular(r)])
    for r in rows:
        if "mma.sync" in r["us"]:
            found["compiled for sm_80 (mma.sync)"] = f"{r['case']}: {r['flops'] / r['us']['mma.sync'] / 1e6:.1f} TFLOP/s"
    return found


def gemm_table(rows):
    heads = ["tegula", "triton", "tma", "cuBLAS", "Lt GELU", "compile", "best/us", "ptr/us", "GELU", "A/A", "error"]
    lines = [f"{'TFLOP/s':38s} " + " ".join(f"{h:>8s}" for h in heads) + "  Tegula's | Triton's | tensor descriptors' configuration"]
    for r in rows:
        lines.append(f"{r['case']:38s} " + " ".join(f"{c or '-':>8s}" for c in gemm_cells(r)) + "  " +
                     " | ".join(r["best"].get(side, "-") for side in ("tegula", "triton", "tma")))
    return "\n".join(lines)


def gemm_markdown(report):
    out = [f"# Matrix products: figures of one run\n\nWritten by `bench/gemm.py` on {report['date']}: {report['device']}, driver "
           f"{report['driver']}, torch {report['torch']}, triton {report['triton']}; {report['pairs']} interleaved rounds. TFLOP/s of "
           "median times; *pointers* and *descriptors* are Triton's kernels, tuned, *then* is cuBLAS and then the activation. "
           "*Best* is the time of the fastest other way over Tegula's, the median of the rounds' ratios: above 1 Tegula is faster; "
           "*vs pointers* likewise. *GELU* is Tegula's time over that of the same configuration without activation, *A/A* Tegula "
           "against itself, *error* the relative error in the Frobenius norm against double precision.\n",
           "| case | Tegula | pointers | descriptors | cuBLAS (then GELU) | cuBLASLt GELU | torch.compile | best | vs pointers | GELU | A/A | error |",
           "|" + "---|" * 12]
    out += [f"| {r['case']} | " + " | ".join(gemm_cells(r)) + " |" for r in report["rows"]]
    out += [""] + [f"- {what}: {line}" for what, line in gemm_summary(report["rows"]).items()]
    return "\n".join(out) + "\n"
