// CPU time from a kernel's text to PTX, for a list of kernels.
//
//   compile_time [--list FILE] [--only TEXT] [--runs 3] [--target sm_90a] [--assemble] [--out FILE] [--against FILE]
//                [--save FOLDER]
//
// A line of the list (compile_time/kernels.txt) names a kernel, the types of its arguments and its constexprs. Each
// kernel is read, parsed, checked and compiled `runs` times in this process, without any cache; the least CPU time
// counts, so that a busy machine matters little. --assemble adds what ptxas makes of the PTX: registers, bytes spilled
// and bytes of machine code. --out writes the table, --against compares with one: sums, and the kernels that differ.
// --save writes the PTX of the list's Nth kernel to FOLDER/N.ptx, so that `diff -rq` tells which kernels' code changed.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "dsl/listing/assembler.h"
#include "dsl/listing/texts.h"
#include "dsl/program.h"

using namespace tegula;
namespace fs = std::filesystem;

namespace {

struct Options {
  std::string list = TEGULA_BENCH "/compile_time/kernels.txt", only, target = "sm_90a", out, against, save;
  int runs = 3;
  bool assemble = false;
};

// In the order of the columns.
enum Column { Total, Front, Passes, Lower, Optimize, Emit, Ptx, Registers, Spilled, Code, kColumns };
constexpr const char* kNames[] = {"total ms", "text to tile IR", "passes",    "lower",   "optimise",
                                  "emit",     "PTX bytes",       "registers", "spilled", "code bytes"};
using Row = std::array<double, kColumns>;

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}

// A line of the list.
struct Case {
  std::string text;
  std::string file, kernel;
  std::vector<std::string> values;  // NAME=VALUE
};

std::vector<Case> read_list(const Options& o) {
  std::ifstream in(o.list);
  if (!in) throw FileError(fmt::format("cannot read '{}'", o.list));
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name) || name[0] == '#' || line.find(o.only) == line.npos) continue;
    const dsl::KernelName split = dsl::parse_kernel_name(name);
    Case c{line, (fs::path(o.list).parent_path() / split.file).string(), split.kernel, {}};
    for (std::string value; words >> value;) c.values.push_back(value);
    cases.push_back(std::move(c));
  }
  return cases;
}

// The types of the launch's arguments and its options, sorted out by the kernel's signature.
std::vector<ArgType> sort_values(const Kernel& kernel, const Case& c, LaunchOptions& options) {
  std::vector<std::string> args, constexprs;
  for (const std::string& value : c.values) {
    const std::string name = value.substr(0, value.find('='));
    const auto& params = kernel.params();
    auto param = std::find_if(params.begin(), params.end(), [&](const KernelParam& p) { return p.name == name; });
    if (name == "num_warps" || name == "num_stages") {  // perhaps a parameter too
      (name == "num_warps" ? options.num_warps : options.num_stages) = std::atoi(value.c_str() + name.size() + 1);
      if (param == params.end()) continue;
    }
    (param != params.end() && param->is_constexpr ? constexprs : args).push_back(value);
  }
  options = dsl::with_constexprs(options, constexprs);
  std::vector<ArgType> types = dsl::parse_arg_types(kernel, args, options);
  dsl::complete_options(kernel, types, options);
  return types;
}

KernelImage compile_once(const Case& c, const Target& target, Row& row) {
  const double begin = cpu_ms();
  const Kernel kernel = Program::load(c.file).kernel(c.kernel);
  LaunchOptions launch;
  const std::vector<ArgType> types = sort_values(kernel, c, launch);
  const Shared<ir::Func> func = kernel.tile_func(types, launch);
  const double front = cpu_ms();
  std::vector<PassTime> times;
  CompileOptions options;
  options.target = target;
  options.times = &times;
  Diagnostics diags;
  std::optional<KernelImage> image = compile(*func, options, diags);
  if (!image) throw CompileError(diags);
  row = {};
  row[Total] = cpu_ms() - begin;
  row[Front] = front - begin;
  for (const PassTime& t : times)
    row[t.pass == "llvm" ? Lower : t.pass == "llvm-opt" ? Optimize : t.pass == "ptx" ? Emit : Passes] += t.ms;
  row[Ptx] = double(image->ptx.size());
  return std::move(*image);
}

// Bytes of the sections of machine code of a cubin, which is an ELF file.
double code_bytes(const std::vector<uint8_t>& cubin) {
  auto read = [&](size_t at, auto value) {
    if (at + sizeof value > cubin.size()) throw Error("a cubin that is cut off");
    std::memcpy(&value, cubin.data() + at, sizeof value);
    return value;
  };
  const auto header = read(0, Elf64_Ehdr());
  double bytes = 0;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read(header.e_shoff + i * header.e_shentsize, Elf64_Shdr());
    if (section.sh_flags & SHF_EXECINSTR) bytes += double(section.sh_size);
  }
  return bytes;
}

Row measure(const Case& c, size_t number, const Options& o) {
  const std::optional<Target> target = find_target(o.target);
  if (!target) throw Error(fmt::format("no target '{}'", o.target));
  Row best{}, row{};
  KernelImage image;
  for (int run = 0; run < o.runs; ++run) {
    image = compile_once(c, *target, row);
    if (run == 0 || row[Total] < best[Total]) best = row;
  }
  if (!o.save.empty()) std::ofstream(fs::path(o.save) / fmt::format("{}.ptx", number)) << image.ptx;
  if (!o.assemble) return best;
  std::string why;
  const auto assembled = dsl::assemble(image, why);
  if (!assembled) throw Error(why);
  best[Registers] = assembled->registers;
  best[Spilled] = assembled->spill_bytes;
  best[Code] = code_bytes(assembled->cubin);
  return best;
}

using Table = std::vector<std::pair<std::string, Row>>;

// The value that the given share of the kernels does not exceed.
double quantile(const Table& table, Column column, double share) {
  std::vector<double> values;
  for (const auto& [name, row] : table) values.push_back(row[column]);
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, size_t(share * double(values.size())))];
}

void print_row(const Row& row, const std::string& name) {
  fmt::print("{:8.1f} = {:6.1f} {:6.1f} {:6.1f} {:7.1f} {:7.1f}  {:8.0f} {:4.0f} {:6.0f} {:8.0f}  {:.100}\n",
             row[Total], row[Front], row[Passes], row[Lower], row[Optimize], row[Emit], row[Ptx], row[Registers],
             row[Spilled], row[Code], name);
}

void print_summary(const Table& table) {
  Row sum{};
  for (const auto& [name, row] : table)
    for (size_t i = 0; i < kColumns; ++i) sum[i] += row[i];
  print_row(sum, "sum");
  fmt::print("{} kernels: median {:.1f} ms, p90 {:.1f} ms, p99 {:.1f} ms, worst {:.1f} ms\n", table.size(),
             quantile(table, Total, 0.5), quantile(table, Total, 0.9), quantile(table, Total, 0.99),
             quantile(table, Total, 1));
}

void write_table(const Table& table, const std::string& path) {
  std::ofstream out(path);
  for (const auto& [name, row] : table) out << fmt::format("{}\t{}\n", fmt::join(row, "\t"), name);
  if (!out) throw FileError(fmt::format("cannot write '{}'", path));
}

std::map<std::string, Row> read_table(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw FileError(fmt::format("cannot read '{}'", path));
  std::map<std::string, Row> table;
  for (Row row{};;) {
    for (double& value : row) in >> value;
    std::string name;
    if (!std::getline(in >> std::ws, name)) return table;
    table[name] = row;
  }
}

// Sums over the kernels of both tables, and the kernels whose code changed by more than a few hundredths.
void compare(const Table& table, const std::map<std::string, Row>& before) {
  Row sum{}, sum_before{};
  for (const auto& [name, row] : table) {
    auto it = before.find(name);
    if (it == before.end()) continue;
    const Row& old = it->second;
    for (size_t i = 0; i < kColumns; ++i) sum[i] += row[i], sum_before[i] += old[i];
    if (std::abs(row[Code] - old[Code]) > 0.03 * old[Code] || std::abs(row[Registers] - old[Registers]) > 8 ||
        row[Spilled] != old[Spilled])
      fmt::print("{:8.1f} -> {:7.1f} ms, registers {} -> {}, spilled {} -> {}, code {} -> {} ({:+.1f} %)  {:.100}\n",
                 old[Total], row[Total], old[Registers], row[Registers], old[Spilled], row[Spilled], old[Code],
                 row[Code], 100 * (row[Code] / old[Code] - 1), name);
  }
  for (size_t i = 0; i < kColumns; ++i)
    fmt::print("{:16} {:12.1f} -> {:12.1f}  {:+.2f} %\n", kNames[i], sum_before[i], sum[i],
               sum_before[i] ? 100 * (sum[i] / sum_before[i] - 1) : 0);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--assemble") {
      o.assemble = true;
      continue;
    }
    const std::map<std::string, std::string*> texts{{"--list", &o.list},       {"--only", &o.only},
                                                    {"--target", &o.target},   {"--out", &o.out},
                                                    {"--against", &o.against}, {"--save", &o.save}};
    if (i + 1 < argc && name == "--runs")
      o.runs = std::max(1, std::atoi(argv[++i]));
    else if (auto it = texts.find(name); i + 1 < argc && it != texts.end())
      *it->second = argv[++i];
    else
      throw dsl::TextError(fmt::format("unknown option '{}'; the head of bench/compile_time.cpp has all", name));
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  const std::vector<Case> cases = read_list(options);
  if (cases.empty()) throw Error("no kernels");
  const auto before = options.against.empty() ? std::map<std::string, Row>() : read_table(options.against);
  Row ignored{};
  compile_once(cases[0], *find_target("sm_90a"), ignored);  // what a process does once
  fmt::print("{:>8} = {:>6} {:>6} {:>6} {:>7} {:>7}  {:>8} {:>4} {:>6} {:>8}\n", "total ms", "front", "passes", "lower",
             "opt", "emit", "PTX", "regs", "spill", "code");
  Table table;
  if (!options.save.empty()) fs::create_directories(options.save);
  for (size_t i = 0; i < cases.size(); ++i) try {
      table.emplace_back(cases[i].text, measure(cases[i], i, options));
      print_row(table.back().second, cases[i].text);
    } catch (const Error& e) {
      fmt::print("{}\n{}\n", cases[i].text, e.what());
    }
  print_summary(table);
  if (!options.out.empty()) write_table(table, options.out);
  if (!before.empty()) compare(table, before);
  return table.size() == cases.size() ? 0 : 1;
} catch (const Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
