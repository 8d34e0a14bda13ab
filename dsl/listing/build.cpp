// Lists of kernels compiled into packages.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "dsl/listing/assembler.h"
#include "dsl/listing/grid_steps.h"
#include "dsl/listing/prepared.h"
#include "dsl/listing/resolve.h"
#include "dsl/listing/texts.h"
#include "dsl/package_writer.h"
#include "dsl/specialize.h"
#include "dsl/tuner.h"
#include "runtime/base/processors.h"

namespace tegula {

namespace {

/// Machine code in place of PTX, or beside it where later GPUs can use the PTX. `missing` becomes why there is none.
void add_machine_code(KernelImage& image, std::string& missing) {
  std::string why;
  std::optional<dsl::Assembled> assembled = dsl::assemble(image, why);
  if (!assembled || assembled->cubin.empty()) {
    missing = why;
    return;
  }
  image.cubin = std::move(assembled->cubin);
  image.registers = assembled->registers;
  image.spill_bytes = assembled->spill_bytes;
  const bool for_this_one_alone = image.target.back() == 'a';
  if (for_this_one_alone) image.ptx.clear();
}

PackagedCode code_of(const dsl::ResolvedKernel& found, const std::string& target, bool emulator, std::string& missing) {
  LaunchOptions options = found.options;
  PackagedCode code{found.kernel.compile(found.types, options, target, emulator), {}};
  if (!code.image.tensor_maps.empty()) {
    options.bulk_copies = 1;
    code.without_bulk_copies = found.kernel.compile(found.types, options, target, emulator);
  }
  if (!emulator) {
    add_machine_code(code.image, missing);
    if (code.without_bulk_copies) add_machine_code(*code.without_bulk_copies, missing);
  }
  return code;
}

PackagedKernel build_kernel(dsl::Resolver& resolver, const ListedKernel& listed, const PackageOptions& options,
                            std::string& missing) {
  const dsl::ResolvedKernel found = resolver.resolve(listed);
  const dsl::KernelSource& source = found.kernel.source();
  PackagedKernel packaged;
  packaged.name = listed.name.empty() ? found.kernel.name() : listed.name;
  packaged.config = dsl::config_of(found.options).to_string();
  for (const ConstexprArg& c : found.options.constexprs) {
    if (const auto* i = std::get_if<int64_t>(&c.value)) packaged.constexprs.push_back({c.name, *i});
    if (const auto* b = std::get_if<bool>(&c.value)) packaged.constexprs.push_back({c.name, *b});
  }
  PackagedChoice choice = dsl::choice_of(listed);
  if (!choice.key.empty()) choice.key = dsl::choice_key(source, choice.gpu, choice.key);
  if (choice != PackagedChoice()) packaged.choices.push_back(std::move(choice));
  for (const std::string& target : options.targets) packaged.codes.push_back(code_of(found, target, false, missing));
  if (options.emulator) packaged.codes.push_back(code_of(found, options.targets.back(), true, missing));
  if (!listed.grid.empty())
    packaged.grid = dsl::grid_steps(listed.grid, packaged.codes.front().image, packaged.constexprs);
  packaged.key = dsl::variants_key(source, found.types, found.options);
  packaged.options = dsl::options_text(found.options);
  for (const auto& [file, text] : source.imported()) packaged.imports.push_back({file, text_digest(text)});
  return packaged;
}

/// A mistake of one line, told with its place. Diagnostics of a kernel, which have places of their own, get a note.
[[noreturn]] void rethrow(const ListedKernel& listed) {
  try {
    throw;
  } catch (const CompileError& e) {
    if (listed.place.empty() || e.diags().empty()) throw;
    Diagnostics noted;
    for (const Diag& diag : e.diags()) noted.add(diag).with_note({}, fmt::format("in the kernel of {}", listed.place));
    throw CompileError(noted);
  } catch (const dsl::TextError& e) {
    if (listed.place.empty()) throw;
    throw LaunchError(fmt::format("{}: {}", listed.place, e.what()));
  } catch (const LaunchError& e) {
    if (listed.place.empty()) throw;
    throw LaunchError(fmt::format("{}: {}", listed.place, e.what()));
  }
}

}  // namespace

BuiltPackage build_package(const std::vector<ListedKernel>& list, const PackageOptions& options) {
  for (const std::string& target : options.targets) dsl::target_named(target);
  dsl::Resolver resolver(options.kernels);
  std::vector<PackagedKernel> kernels(list.size());
  std::vector<std::string> missing(list.size());
  std::vector<std::exception_ptr> errors(list.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < list.size();) try {
        kernels[i] = build_kernel(resolver, list[i], options, missing[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  const unsigned wanted = options.threads > 0 ? unsigned(options.threads) : processors();
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(wanted, list.size()); ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();

  BuiltPackage built;
  for (size_t i = 0; i < list.size(); ++i) {
    if (errors[i]) try {
        std::rethrow_exception(errors[i]);
      } catch (...) {
        rethrow(list[i]);
      }
    if (options.progress) options.progress(kernels[i]);
    built.package.add(std::move(kernels[i]));
    if (!missing[i].empty()) built.without_machine_code = missing[i];
  }
  return built;
}

void write_package(const std::filesystem::path& file, const std::vector<ListedKernel>& list,
                   const PackageOptions& options) {
  build_package(list, options).package.write(file);
}

}  // namespace tegula
