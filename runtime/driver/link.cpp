#include "runtime/driver/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace tegula::cuda {

namespace {

constexpr size_t kLogBytes = 64 << 10;

// The number that stands directly before `unit` in `line`, as in "16 bytes spill stores"; -1 if there is none.
int number_before(std::string_view line, std::string_view unit) {
  size_t end = line.find(unit);
  if (end == std::string_view::npos) return -1;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = -1;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

// 87 for a text with the directive ".version 8.7"; 0 if there is none.
int ptx_version(std::string_view ptx) {
  constexpr std::string_view kDirective = ".version ";
  size_t at = ptx.find(kDirective);
  if (at == std::string_view::npos) return 0;
  int major = 0, minor = 0;
  const char* end = ptx.data() + ptx.size();
  auto [next, error] = std::from_chars(ptx.data() + at + kDirective.size(), end, major);
  if (error == std::errc() && next != end && *next == '.') std::from_chars(next + 1, end, minor);
  return major * 10 + minor;
}

std::string indented(std::string_view log) {
  std::string out;
  while (!log.empty()) {
    size_t end = std::min(log.find('\n'), log.size());
    if (end > 0) out += fmt::format("\n    {}", log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return out;
}

// The lines of the PTX that the log names: "line 12" is of no use without them.
std::string lines_named(std::string_view log, std::string_view ptx) {
  constexpr std::string_view kLine = "line ";
  constexpr int kMost = 4;
  std::string out;
  int shown = 0;
  for (size_t at = log.find(kLine); at != log.npos && shown < kMost; at = log.find(kLine, at + 1)) {
    int line = 0;
    const char* end = log.data() + log.size();
    if (std::from_chars(log.data() + at + kLine.size(), end, line).ec != std::errc() || line < 1) continue;
    std::string_view rest = ptx;
    for (int i = 1; i < line && !rest.empty(); ++i) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    std::string_view text = rest.substr(0, rest.find('\n'));
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (!text.empty()) out += fmt::format("\n    line {}: {}", line, text), ++shown;
  }
  return out;
}

struct LinkStateOwner {
  const Driver& driver;
  LinkState state = nullptr;
  ~LinkStateOwner() {
    if (state) driver.link_destroy(state);
  }
};

}  // namespace

int cuda_version_for_ptx(int version) {
  int major = version / 10, minor = version % 10;
  if (major >= 9) return (major + 4) * 1000 + minor * 10;
  if (major == 8) return 12000 + (minor <= 5 ? minor : minor + 1) * 10;  // CUDA 12.6 brought no new PTX
  return (major + 4) * 1000;
}

void read_link_log(std::string_view log, Linked& linked) {
  while (!log.empty()) {
    size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    if (line.find("Used ") != line.npos)
      linked.registers = std::max(linked.registers, number_before(line, " registers"));
    linked.spill_bytes = std::max(linked.spill_bytes, number_before(line, " bytes spill stores"));
    linked.stack_bytes = std::max(linked.stack_bytes, number_before(line, " bytes stack frame"));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
}

namespace {

// The options of a compilation, where the compiler reports, and what a refusal says.
class Compilation {
 public:
  Compilation(const Driver& driver, const std::string& ptx, std::string_view kernel)
      : driver_(driver), ptx_(ptx), kernel_(kernel), info_(kLogBytes), errors_(kLogBytes) {
    auto number = [](size_t value) { return reinterpret_cast<void*>(value); };  // the driver takes numbers as pointers
    options_ = {JitOption::InfoLogBuffer, JitOption::InfoLogBufferSizeBytes, JitOption::ErrorLogBuffer,
                JitOption::ErrorLogBufferSizeBytes, JitOption::LogVerbose};
    values_ = {info_.data(), number(info_.size()), errors_.data(), number(errors_.size()), number(1)};
    if (ptx.find(".loc") == std::string::npos) return;
    options_.push_back(JitOption::GenerateLineInfo);
    values_.push_back(number(1));
  }

  unsigned count() const { return unsigned(options_.size()); }
  JitOption* options() { return options_.data(); }
  void** values() { return values_.data(); }

  void check(const char* symbol, Result result) const {
    if (result == Result::Success) return;
    const int version = ptx_version(ptx_);
    if (result == Result::UnsupportedPtxVersion)
      throw DeviceError(
          fmt::format("{} failed: {}\n  note: kernel '{}' is PTX {}.{}, and the driver supports CUDA {}\n"
                      "  hint: update the NVIDIA driver to CUDA {} or later, or compile for a lower PTX version",
                      symbol, driver_.describe(result), kernel_, version / 10, version % 10,
                      cuda_version_text(driver_.version), cuda_version_text(cuda_version_for_ptx(version))));
    std::string note = fmt::format("assembling kernel '{}'", kernel_);
    const std::string_view log(errors_.data(), strnlen(errors_.data(), errors_.size()));
    if (!log.empty()) note += "; the driver's PTX compiler says:" + indented(log) + lines_named(log, ptx_);
    driver_.fail(symbol, result, note);
  }

  Linked reported() const {
    Linked made;
    made.log.assign(info_.data(), strnlen(info_.data(), info_.size()));
    read_link_log(made.log, made);
    return made;
  }

 private:
  const Driver& driver_;
  const std::string& ptx_;
  std::string_view kernel_;
  std::vector<char> info_, errors_;
  std::vector<JitOption> options_;
  std::vector<void*> values_;
};

// The PTX with a bound for each of its entries, behind their numbers of threads.
std::string with_programs(const std::string& ptx, int64_t programs) {
  constexpr std::string_view kThreads = "\n.reqntid ";
  std::string out;
  size_t done = 0;
  for (size_t at = ptx.find(kThreads); at != ptx.npos; at = ptx.find(kThreads, done)) {
    const size_t end = std::min(ptx.find('\n', at + 1), ptx.size());
    out += fmt::format("{}\n.minnctapersm {}", std::string_view(ptx).substr(done, end - done), programs);
    done = end;
  }
  return out + ptx.substr(done);
}

bool bounds_registers(const std::string& ptx) {
  return ptx.find("\n.minnctapersm ") != ptx.npos || ptx.find("\n.maxnreg ") != ptx.npos;
}

bool multiplies(const std::string& ptx) {
  return ptx.find("wgmma.mma_async") != ptx.npos || ptx.find("mma.sync.") != ptx.npos;
}

struct ModuleOwner {
  const Driver& driver;
  Module module = nullptr;
  ~ModuleOwner() {
    if (module) driver.module_unload(module);
  }
};

// link_ptx, with registers and spills also where the report leaves them out, as it does if the driver has the code in a
// cache of its own: then the loaded code tells, if it has the entry.
Linked link_and_ask(const Driver& driver, const std::string& ptx, std::string_view kernel, int64_t programs) {
  Linked linked = link_ptx(driver, ptx, kernel, programs);
  if (linked.registers >= 0 && linked.spill_bytes >= 0) return linked;
  ModuleOwner owner{driver};
  driver.call(driver.module_load_data, &owner.module, linked.cubin.data());
  Function function = nullptr;
  if (driver.module_get_function(&function, owner.module, std::string(kernel).c_str()) != Result::Success)
    return linked;
  auto ask = [&](FunctionAttribute which, int& known) {
    if (known < 0) driver.call(driver.func_get_attribute, &known, which, function);
  };
  ask(FunctionAttribute::NumRegs, linked.registers);
  ask(FunctionAttribute::LocalSizeBytes, linked.stack_bytes);
  if (linked.spill_bytes < 0) linked.spill_bytes = linked.stack_bytes;
  return linked;
}

// The same, or nothing where the compiler refuses, as it does if an instruction, such as a product, takes more
// registers than so many programs leave.
std::optional<Linked> try_link(const Driver& driver, const std::string& ptx, std::string_view kernel,
                               int64_t programs) {
  try {
    return link_and_ask(driver, ptx, kernel, programs);
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

}  // namespace

int64_t Multiprocessor::programs_with(int registers_per_thread) const {
  constexpr int64_t kUnit = 8;  // of the registers that a thread gets
  const int64_t each = (registers_per_thread + kUnit - 1) / kUnit * kUnit;
  return std::min(programs, registers / std::max<int64_t>(1, each * threads));
}

Linked link_ptx_for(const Multiprocessor& on, const Driver& driver, const std::string& ptx, std::string_view kernel) {
  constexpr double kWordBytes = 4;
  constexpr size_t kLongText = 100'000;  // each link of more takes a good part of a second
  constexpr int kThreadsOfWarpgroup = 128, kFewestOfProducts = 64;
  const bool products = multiplies(ptx);
  if (bounds_registers(ptx) || ptx.size() > kLongText || (products && on.threads < kThreadsOfWarpgroup))
    return link_ptx(driver, ptx, kernel);
  // How many registers a word of the stack wants: rather too few, which takes a link more, than too many, which takes
  // programs. Stores of spilled words tell less: words that are not needed at the same time are stored to the same
  // place, and code in the driver's cache does not tell of them.
  constexpr double kRegistersOfWord = 0.4;
  int64_t programs = products ? std::min(on.programs, on.programs_with(kFewestOfProducts)) : on.programs;
  while (programs > 1) {
    const std::optional<Linked> tried =
        products ? try_link(driver, ptx, kernel, programs) : link_and_ask(driver, ptx, kernel, programs);
    if (tried && tried->spill_bytes <= 0) return *tried;
    --programs;
    if (!tried) continue;
    const double more = kRegistersOfWord * tried->stack_bytes / kWordBytes;
    programs = std::min(programs, on.programs_with(tried->registers + int(more)));
  }
  return link_ptx(driver, ptx, kernel);
}

Linked link_ptx(const Driver& driver, const std::string& text, std::string_view kernel, int64_t programs) {
  const std::string bounded = programs ? with_programs(text, programs) : std::string();
  const std::string& ptx = programs ? bounded : text;
  Compilation compilation(driver, ptx, kernel);
  LinkStateOwner owner{driver};
  compilation.check(driver.link_create.symbol,
                    driver.link_create(compilation.count(), compilation.options(), compilation.values(), &owner.state));
  compilation.check(driver.link_add_data.symbol,
                    driver.link_add_data(owner.state, JitInputType::Ptx, const_cast<char*>(ptx.c_str()), ptx.size() + 1,
                                         std::string(kernel).c_str(), 0, nullptr, nullptr));
  void* cubin = nullptr;
  size_t bytes = 0;
  compilation.check(driver.link_complete.symbol, driver.link_complete(owner.state, &cubin, &bytes));
  Linked linked = compilation.reported();
  auto* first = static_cast<const uint8_t*>(cubin);  // owned by the link state
  linked.cubin.assign(first, first + bytes);
  return linked;
}

Linked load_ptx(const Driver& driver, const std::string& ptx, std::string_view kernel, Module& module) {
  Compilation compilation(driver, ptx, kernel);
  compilation.check(driver.module_load_data_ex.symbol,
                    driver.module_load_data_ex(&module, ptx.c_str(), compilation.count(), compilation.options(),
                                               compilation.values()));
  return compilation.reported();
}

}  // namespace tegula::cuda
