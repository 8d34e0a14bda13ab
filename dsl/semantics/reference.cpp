#include "dsl/semantics/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/ir/libdevice.h"
#include "dsl/semantics/sema.h"

namespace tegula::dsl {

namespace {

std::string signature(const FunctionInfo& f) {
  constexpr std::string_view kCuda = "extra_cuda_";  // tl.extra.cuda's functions are called through that module
  std::string out = (f.name.starts_with(kCuda) ? "extra.cuda." + f.name.substr(kCuda.size()) : f.name) + "(";
  const char* separator = "";
  for (const FunctionParam& p : f.params) {
    out += separator + std::string(p.rest ? "*" : "") + p.name;
    separator = ", ";
    if (p.required || p.rest) continue;
    if (p.fallback.is<None>())
      out += "=None";
    else if (p.fallback.is<bool>())
      out += p.fallback.as<bool>() ? "=True" : "=False";
    else if (p.fallback.is<Int>())
      out += fmt::format("={}", p.fallback.as<Int>());
    else if (p.fallback.is<std::string>())
      out += fmt::format("='{}'", p.fallback.as<std::string>());
    else
      out += "=()";
  }
  return out + ")";
}

// For a cell of a table.
std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string regions_text(const ir::OpInfo& op) {
  static constexpr const char* kKinds[] = {"combine", "elements", "body", "test", "branch", "beside"};
  std::string out;
  for (const ir::RegionInfo& region : op.regions)
    out += fmt::format("{}{} ({}): {}", out.empty() ? "" : " ", kKinds[int(region.kind)],
                       ir::op_info(region.terminator).text, region.doc);
  return escaped(out);
}

// "`axis` = 0 (0 to 2): ..."
std::string attribute_text(const ir::AttrInfo& attr) {
  struct Default {
    std::string operator()(bool v) const { return v ? " = true" : " = false"; }
    std::string operator()(int64_t v) const { return fmt::format(" = {}", v); }
    std::string operator()(double v) const { return fmt::format(" = {}", v); }
    std::string operator()(const std::string& v) const { return v.empty() ? "?" : fmt::format(" = {}", v); }
    std::string operator()(const ir::Ints&) const { return "?"; }
  };
  std::string limits;
  if (attr.low > INT32_MIN && attr.high < INT32_MAX)
    limits = fmt::format(" ({} to {})", attr.low, attr.high);
  else if (!attr.choices.empty())
    limits = fmt::format(" ({})", fmt::join(attr.choices, ", "));
  return fmt::format("`{}`{}{}: {}", attr.name, attr.required ? "" : std::visit(Default{}, attr.fallback), limits,
                     attr.doc);
}

std::string attributes_text(const ir::OpInfo& op) {
  std::string out;
  for (const ir::AttrInfo& attr : op.attrs) out += (out.empty() ? "" : " ") + attribute_text(attr);
  return escaped(out);
}

// Rows of one name and meaning together.
std::string libdevice_table() {
  std::string out = R"(
## libdevice

`from triton.language.extra import libdevice` (or `tl.extra.libdevice`, `tl.extra.cuda.libdevice`; what `tl` itself does not
have is in `tl.math` as well). Errors in ulp; two numbers are those of float32 and float64.

| function | types | meaning |
|---|---|---|
)";
  const std::vector<ir::LibdeviceFunction>& all = ir::libdevice_functions();
  for (size_t i = 0; i < all.size();) {
    std::string types;
    size_t end = i;
    for (; end < all.size() && all[end].name == all[i].name && std::string_view(all[end].doc) == all[i].doc; ++end)
      types += (end > i ? ", " : "") + all[end].signature();
    out += fmt::format("| `{}` | {} | {} |\n", all[i].name, types, escaped(all[i].doc));
    i = end;
  }
  return out;
}

}  // namespace

std::string language_reference() {
  std::string out = R"(# The kernel language

Kernels are Triton's: Python functions under `@triton.jit` on whole tiles. Files are ordinary Triton files; imports, host
functions and decorators that are not Triton's are skipped. This page is written by `./dev docs` from the op table
(codegen/ir/ops.def), the function table (dsl/semantics/functions.def) and the type table (runtime/base/elem.def).
The same kernels may be written as C++ functions: see [kernels in C++](cpp.md).

## Statements

Assignment (also to tuples with a starred name, augmented, annotated, and `(x := ...)` in an expression), `if`/`elif`/`else`,
`for` over `range`, `tl.range`, `tl.static_range`, tuples and lists, `while`, `break`, `continue`, `else` of a loop, `return`
(anywhere), `assert`, `pass`, calls of `@triton.jit` functions, which are inlined. Such a function may have `*args`,
parameters by keyword alone and computed defaults, and may be a compile-time argument too; a launch passes it by its name. An
`if` whose condition is known at compile time is decided there, and the branch not taken is not checked. A name assigned in
both branches of a run-time `if`, or in a loop, keeps one type. `x: tl.constexpr = ...` is a compile-time value where its
value is one. Behind a `for` loop its variable has the value of the last iteration; without any, the one that it had, or the
lower bound.

A `@triton.jit` function may call itself, at most 32 deep, with other types or constants each time, until a condition that is
known at compile time ends it.

A `for` loop that may be left by `break` or `return` at run time is a `while` loop, which is not pipelined. A `return` of
values from a loop is checked twice. A `with` of `tl.async_task(...)` or its kin is a hint, and runs its block.

At compile time there are integers of any size, floats, strings and their methods, f-strings (`f"{B=} {x:>8}"`), tuples, lists
(`append`, `extend`, `xs[i] = ...`, which tuples lack; comprehensions), dictionaries, lambdas, `len`, `min`, `max`, `sum`, `any`, `all`, `zip`,
`enumerate`, `isinstance`, `getattr`, `hasattr`, `type`. Lists may hold values of the kernel; one that changes in a run-time
branch or loop cannot be used behind it. A list belongs to the function that makes it: a helper gets a copy. Functions of the
file without `@triton.jit` (`@triton.constexpr_function`) take and give compile-time values; what they may do is said under
decorators. Globals may be computed by them. Which of several definitions of a name under `if` and `else` of the module
counts is decided by the conditions; an `except` is taken never to run.

`tl.static_print` prints when the kernel is compiled, on the standard error stream (in Python on standard output).
`tl.device_print`, which `print` is too, prints when the kernel runs. `tl.device_assert`, which `assert` of a value is too,
is carried out with the option `debug`, or with `TEGULA_DEBUG` or `TRITON_DEBUG` in the environment, and does nothing
otherwise, as in Triton. On a GPU a failed assert ends its program, and the next launch of the kernel or the next call that
waits for the device is a `DeviceError` with the message; the device stays usable, and other programs go on. On the emulator it
ends the launch. An `assert` that is false for compile-time values is a warning, and is carried out as one of values is;
`tl.static_assert` is an error.

## Order in memory

A program has one order: a load sees what the program has stored before, a store changes nothing that it has loaded before,
and of two stores to one address the later one stays. Where a thread accesses what another one stores, the compiler
puts a barrier between the two (Triton leaves that to `tl.debug_barrier()`). An atomic operation on a scalar that releases
(`sem` is not 'relaxed' or 'acquire') shows other programs all that the program has done before; behind one that acquires, and
whose result is used, all threads see what was released. Three things have no order:

- Pointers that follow from different parameters of the kernel are taken not to overlap.
- Of elements that one store puts at one address any one stays.
- Where a loop's iterations store to one address, any one stays, unless the address is the same in each iteration or follows
  from a tile that was loaded: `tl.debug_barrier()` orders the iterations.

Programs of a launch have no order but that of atomic operations and volatile loads.

The emulator finds accesses without an order, and reads of what nobody has written: `tegula run --check FILE::KERNEL ...`,
`TEGULA_EMULATOR_CHECK=1`, or `EmulatorOptions::check_races`. The error names both accesses, what is missing between them, and
what to write. Stores of what stands there already are no races. With these checks arithmetic is warned of too, once a place:
sums and products of int32 in the address of an access (a masked one is none) that do not fit, integer divisions by 0 and
shifts by the width or more (also where the result is not used), and with `TEGULA_EMULATOR_CHECK=nan` operations on numbers
that make a NaN. `TEGULA_EMULATOR_LIMIT=10s`, or a number of steps, ends
a launch that does not end, as Ctrl-C does, and says where its threads are. `TEGULA_EMULATOR_SEED=7` runs the threads in another
order, which follows from the number.

## Decorators

`@triton.autotune` (configs, key, reset_to_zero, restore_value, warmup, rep, prune_configs_by with early_config_prune and an integer top_k) and
`@triton.heuristics` are followed where the values depend on constants and on the arguments of the launch, and so are
do_not_specialize and do_not_specialize_on_alignment of `@triton.jit`. perf_model and do_bench have no effect:
candidates are ranked by Tegula's model, of which top_k leaves the best, and timed in another way. pre_hook and post_hook of `@triton.autotune` run around each timed
run, besides reset_to_zero and restore_value, and the pre_hook of a `triton.Config` before each launch that tuning gave it;
they may zero tensors (`args["out"].zero_()`) and give tensor descriptors their blocks (`args["d"].block_shape = [...]`).
Hooks that are given in C++ or Python instead may do anything. Decorators of others have no effect, but `autotune` under any
path is taken as Triton's. Evaluated are expressions, lists, dicts, comprehensions, lambdas, module-level names and functions (with loops, conditions and
`append`), `range`, `len`, `min`, `max`, `sum`, `any`, `all`, `zip`, `enumerate`, `itertools.product`, `math`,
`triton.cdiv`, `triton.next_power_of_2`; of a tensor its dtype, `element_size()`, `data_ptr()` and whether it is None.
Python itself does not run: for anything else an error says what it was when the decorator is asked for, and the
configurations are given in C++. A launch that gives all constexprs itself asks for none.

## Names of other files

What a kernel's file imports is looked up in the files of its package: relative imports from the folder of the file, absolute
ones from above the outermost folder with an `__init__.py`, from the file's own folder, and from the folders where packages
lie besides: in Python those of `sys.path`, for the command those of `PYTHONPATH`, in C++ `Program::load(path, globals, folders)`.
So kernels that torch's Inductor writes find their helpers in `torch._inductor`. `@triton.jit` functions are
inlined, functions without it run at compile time; constants are evaluated as under [decorators](#decorators). Of classes there
are named tuples (`typing.NamedTuple`, `collections.namedtuple`), which make values, and names of constants (`Mode.DOUBLE`, with
or without `.value`). No module runs: a constant that depends on more than `os.environ`, `triton` and the target's
`torch.cuda.get_device_capability()` is an error, unless it is given: `tegula check FILE --global NAME=VALUE`,
`Program::load(path, {{"NAME", value}})`, in Python `tegula.load(path, {"NAME": value})`. A given value counts in all files.
`torch.finfo(tl.float32)` and `torch.iinfo` give limits of types (`max`, `min`, `eps`, `tiny`, `bits`).

## Tuples as arguments

A launch passes tuples and named tuples: in Python as they are, nested too; items that are None, strings and types are known at
compile time, the others are arguments like any others (integers of 1 are compiled in). A parameter that is a `tl.constexpr` takes tuples of
compile-time values. `tl.constexpr(8)` in a tuple is known at compile time too. From C++ `std::tuple(x.as<float>(), n,
std::pair(3, 4))` is a tuple of arguments, whose texts, `Elem` and `std::monostate` (None) are known at compile time; a named
tuple's form is given as a constexpr, `{"xs", ConstexprTuple{{NextArg(), 3, NextArg()}, "Point", {"x", "y", "z"}}}`, and the
arguments that it says NextArg of stand in the place of the parameter. `tegula compile --arg 'xs=(*f32, i32)'`.

## Objects

Calls of a class under `@triton.language.core._aggregate` make objects: `__init__` gives each field that the class annotates
its value (`self.x = ...`), which nothing changes afterwards; a number becomes a scalar of the kernel unless the field is a
`tl.constexpr`. Methods are inlined; `__add__`, `__sub__`, `__mul__` and the like are operators; `@staticmethod` ones are
called on the class. Loops and branches carry objects as they do tuples.

## Element types

| name | short | bits |
|---|---|---|
)";
  for (int i = 0; i <= int(Elem::F64); ++i) {
    const ElemInfo& e = elem_info(Elem(i));
    out += fmt::format("| tl.{} | {} | {} |\n", e.tl, e.text, e.bits);
  }
  out += R"(
## Extents of tiles

An extent is q * 2^k, q odd and at most 31: the powers of two, and 96, 192, 224, ... beside them, which Triton lacks. Threads
share the 2^k and hold q elements for it, so k should be 5 and more along one axis at least; where q is not 1, `tl.dot`
runs on tensor cores if the 2^k of M, N and K fill their instructions (16, 8 and 16 for 16 bits; 64 rows and 16
columns for those of four warps on Hopper). A tile has at most 2^20 elements and 20 dimensions. `tl.ravel` and reductions of all elements take any tile.

## Operators

`+ - * / // % ** @ & | ^ << >>`, the unary `- + ~ not`, `== != < <= > >= and or`, `is`, `is not`, `in`, `not in` (these four
at compile time), the ternary `a if c else b`, and indices: `:`, `None` and `...` as in `x[:, None]`, integers (also known at
run time alone, then within the extent) as in `x[i, :]`, and slices between constants as in `x[2:10]`, which move all of x
through registers; memory is better read by `tl.load`. `a @ b` is `tl.dot(a, b)`.
Integer `//` and `%` truncate towards zero at run time, as in C, and floor at compile time, as in Python. How wide accesses
may be is found on the presumption that index arithmetic does not overflow and that programs divide what is not negative (a
scalar made of their ids) by positive numbers. `/` gives a float. Types are promoted as in Triton; a number in the source
takes the type of the tile that it meets, if that has it; in a comparison it has its own type first, as in Triton: int32,
else uint32, int64 or uint64, and float32. A chain of comparisons is for scalars alone. A product and a sum may be fused into one fma.

## float8

`tl.float8e4nv` (4 bits of exponent, 3 of fraction, no infinities, up to 448) and `tl.float8e5` (5 and 2, up to 57344) are
loaded, stored, converted, chosen by `tl.where`, moved and multiplied by `tl.dot`, and have `tl.abs`; other arithmetic on them is an error: compute
in `x.to(tl.float32)`. As in Triton two different kinds meet in float16, and a wider float wins. Conversions to them go by way
of float32, round to nearest even and give the largest finite number where the value is larger or infinite (torch gives NaN
or infinity there); a NaN stays one.

`tl.dot` takes either kind with either. Where the GPU's tensor cores lack them, operands are multiplied as float16, which is
exact. Hopper's tensor cores (sm_90a) keep about 14 bits of the sums of float8 products. `max_num_imprecise_acc` (at most
the dot's K) says how many products along K may be summed so, in steps of 32, before they are added to the accumulator in
float32. Without it, as with Triton's default, all of a loop's products are summed so in `acc = tl.dot(a, b, acc)`, and
those of one dot in `acc += tl.dot(a, b)`. The emulator sums in as few bits.

Three kinds more are converted on their bits, and multiplied as float16: `tl.float8e4b15` (4 and 3, a half's exponents, neither
infinities nor NaNs; by way of float16 towards zero, then to nearest, ties away from zero; beyond 1.75, NaNs too, 1.75),
which is as Triton has it, and AMD's `tl.float8e4b8` (up to 240) and `tl.float8e5b16` (up to 57344), with one zero and one
NaN, which Triton refuses on NVIDIA's GPUs. `tl.extra.cuda.convert_custom_float8` is what casts of float8e4b15 do.

## What is not there

Refused with a message: `with` of anything but hints, `try`, `class`, `del`, `global`, nested functions and sets in a kernel,
parameters `**kwargs`, and parts of tiles as targets (`x[0] = ...`).
[From Triton](from-triton.md) says what to write instead. `raise` stands only where a compile-time condition keeps it from
being reached. Files may hold all of that outside kernels.

Expressions may be trees of 400 levels (a sum of 400 terms), brackets nest 64 deep, blocks 100, and an `if` has at most 300
branches: beyond that the text is refused.

## Pipelined loops, and memory that overlaps

`num_stages` of a launch is the number of iterations under way at a time in loops around a `tl.dot`, as in Triton: loads
that feed the dot are issued `num_stages - 1` iterations ahead. Other loops are pipelined only where they say so themselves:
`tl.range(..., num_stages=3)`, then with all their loads. What only feeds a `tl.dot` waits in shared memory, the rest in
registers: both limit how far ahead loads are. Where a loop over tiles holds a loop that does nothing but sum up products,
the last loads of a tile are the first ones of the next: they pass what the tile does behind its products, its stores too.
Each tile then takes `num_stages - 1` iterations at least. `tl.range(..., num_stages=1)` for the loop over tiles forbids it.

A load is moved ahead only past stores to memory that other parameters of the kernel point to: **pointer parameters are
taken not to overlap** in such loops. A kernel that reads through one parameter what it writes through another in an
earlier iteration of the loop, or of the loop over tiles, needs `num_stages=1` there, or one parameter for both. Working in
place, where each
iteration reads and writes its own part, is safe. Volatile loads, barriers and ordering atomics keep their places.

## Functions

Called as `tl.name(...)` or `tl.math.name(...)`; those marked `x.` also as methods. Error bounds in ulp are those of the
tests. Transcendental functions take float32 and float64.

| function | | meaning |
|---|---|---|
)";
  std::vector<const FunctionInfo*> sorted;
  for (const FunctionInfo& f : function_table())
    if (!f.name.starts_with("libdevice.")) sorted.push_back(&f);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (const FunctionInfo* f : sorted) {
    out += fmt::format("| `{}` | {} | {} |\n", signature(*f), f->method ? "x." : "", escaped(f->doc));
  }
  out += libdevice_table();
  out += R"(
## Methods of tensor descriptors

| method | meaning |
|---|---|
)";
  for (const FunctionInfo& f : descriptor_methods())
    out += fmt::format("| `desc.{}` | {} |\n", std::string(signature(f)).replace(f.name.size() + 1, 6, ""), f.doc);
  out += R"(
## tile IR

The operations that kernels are lowered to; `tegula compile --emit=tile` prints them.

An attribute without a default must be given; `?` marks one that has no value unless it is given.

| op | operands | regions | attributes | meaning |
|---|---|---|---|---|
)";
  for (const ir::OpInfo& op : ir::op_table()) {
    std::string operands;
    for (size_t i = 0; i < op.operands.size(); ++i)
      operands += (i ? ", " : "") + op.operands[i] + (int(i) >= op.required && !op.variadic ? "?" : "");
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", op.text, operands, regions_text(op), attributes_text(op),
                       escaped(op.doc));
  }
  return out;
}

}  // namespace tegula::dsl
