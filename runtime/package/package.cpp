#include "runtime/package/package.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/base/byte_stream.h"
#include "runtime/base/files.h"
#include "runtime/image_format.h"

namespace tegula {

namespace {

// A file: the magic, the version, the signature or none, XXH3-64 of what follows, the kernels. What is signed are the
// magic, the version and the kernels.
constexpr std::string_view kMagic = "TegulaPackage\r\n";
constexpr uint32_t kVersion = 5;

uint64_t digest_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

bool same_specialisation(const PackagedKernel& a, const PackagedKernel& b) {
  if (a.name != b.name || a.config != b.config) return false;
  if (a.codes.empty() || b.codes.empty()) return a.codes.empty() && b.codes.empty();
  const KernelImage &left = a.codes.front().image, &right = b.codes.front().image;
  return left.params == right.params && left.constants == right.constants && a.key == b.key;
}

void write(ByteWriter& w, const std::vector<NamedInteger>& integers) {
  w.number(uint64_t(integers.size()));
  for (const NamedInteger& i : integers) {
    w.bytes(i.name);
    w.number(i.value);
  }
}

std::vector<NamedInteger> read_integers(ByteReader& r) {
  std::vector<NamedInteger> integers(r.count());
  for (NamedInteger& i : integers) {
    i.name = r.bytes<std::string>();
    i.value = r.number<int64_t>();
  }
  return integers;
}

void write(ByteWriter& w, const std::vector<ArgumentValue>& values) {
  w.number(uint64_t(values.size()));
  for (const ArgumentValue& v : values) {
    w.bytes(v.name);
    w.number(uint8_t(v.value.index()));
    std::visit([&](auto value) { w.number(std::bit_cast<int64_t>(value)); }, v.value);
  }
}

std::vector<ArgumentValue> read_values(ByteReader& r) {
  std::vector<ArgumentValue> values(r.count());
  for (ArgumentValue& v : values) {
    v.name = r.bytes<std::string>();
    const uint8_t kind = r.number<uint8_t>();
    const int64_t bits = r.number<int64_t>();
    r.require(kind <= 1);
    v.value = kind == 1 ? Number(std::bit_cast<double>(bits)) : Number(bits);
  }
  return values;
}

// Whether an argument has the value that a specialisation was chosen for.
bool has_value(const Arg& arg, const Number& value) {
  if (const auto* f = std::get_if<double>(&value)) return arg.kind == Arg::Kind::Float && arg.f == *f;
  return arg.kind != Arg::Kind::Float && arg.i == std::get<int64_t>(value);
}

std::string signed_part(std::string_view payload) {
  ByteWriter w;
  w.number(kVersion);
  return std::string(kMagic) + w.take() + std::string(payload);
}

std::string signature_bytes(const Signature& s) {
  std::string bytes(s.key.begin(), s.key.end());
  return bytes.append(s.bytes.begin(), s.bytes.end());
}

// Throws FileError unless `bytes` are the key's signature of the payload.
void check_signature(std::string_view name, std::string_view bytes, std::string_view payload, const PublicKey& key) {
  if (bytes.empty())
    throw FileError(fmt::format(
        "'{}' is not signed; expected a signature by the key {}\n  hint: `tegula build --sign KEY` signs it", name,
        key.text()));
  Signature signature;
  std::copy_n(bytes.begin(), signature.key.size(), signature.key.begin());
  std::copy_n(bytes.begin() + signature.key.size(), signature.bytes.size(), signature.bytes.begin());
  if (signature.key != key.bytes())
    throw FileError(
        fmt::format("'{}' is signed by the key {}, expected the key {}", name, key_text(signature.key), key.text()));
  if (!key.verifies(signed_part(payload), signature))
    throw FileError(
        fmt::format("'{}' is not what the key {} has signed: it was changed, or the signature is another "
                    "file's",
                    name, key.text()));
}

void write_grid(ByteWriter& w, const PackagedGrid& grid) {
  w.bytes(grid.text);
  write_steps(w, grid.steps);
  w.number(uint64_t(grid.extents.size()));
  for (int32_t extent : grid.extents) w.number(extent);
}

PackagedGrid read_grid(ByteReader& r) {
  PackagedGrid grid;
  grid.text = r.bytes<std::string>();
  grid.steps = read_steps(r);
  grid.extents.resize(r.count());
  for (int32_t& extent : grid.extents) extent = r.number<int32_t>();
  return grid;
}

// What is known of a specialisation besides its code.
void write_facts(ByteWriter& w, const PackagedKernel& k) {
  write(w, k.constexprs);
  w.number(uint64_t(k.choices.size()));
  for (const PackagedChoice& choice : k.choices) {
    w.bytes(choice.gpu);
    w.bytes(choice.key);
    write(w, choice.when);
  }
  w.bytes(k.key);
  w.bytes(k.options);
  w.number(uint64_t(k.imports.size()));
  for (const PackagedImport& import : k.imports) {
    w.bytes(import.file);
    w.number(import.digest);
  }
  write_grid(w, k.grid);
}

void read_facts(ByteReader& r, PackagedKernel& k) {
  k.constexprs = read_integers(r);
  k.choices.resize(r.count());
  for (PackagedChoice& choice : k.choices) {
    choice.gpu = r.bytes<std::string>();
    choice.key = r.bytes<std::string>();
    choice.when = read_values(r);
  }
  k.key = r.bytes<std::string>();
  k.options = r.bytes<std::string>();
  k.imports.resize(r.count());
  for (PackagedImport& import : k.imports) {
    import.file = r.bytes<std::string>();
    import.digest = r.number<uint64_t>();
  }
  k.grid = read_grid(r);
}

// What both are chosen for; one that is for any launch stays so.
std::vector<PackagedChoice> both(const std::vector<PackagedChoice>& a, const std::vector<PackagedChoice>& b) {
  if (a.empty() && b.empty()) return {};
  std::vector<PackagedChoice> all = a;
  if (a.empty()) all.emplace_back();
  auto add = [&](const PackagedChoice& choice) {
    if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(choice);
  };
  for (const PackagedChoice& choice : b) add(choice);
  if (b.empty()) add({});
  return all;
}

bool for_emulator(const KernelImage& image) { return !image.bitcode.empty(); }

struct Architecture {
  int sm = 0;
  bool this_one_alone = false;  // "sm_90a": code that runs on no other
};

Architecture architecture_of(const KernelImage& image) {
  Architecture a;
  const std::string_view text = image.target;
  if (!text.starts_with("sm_")) return a;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + text.size(), a.sm);
  a.this_one_alone = error == std::errc() && end != text.data() + text.size();
  return a;
}

// 0: the code does not run there; else the more, the better.
int rank(const KernelImage& image, const DeviceInfo& device) {
  const Architecture a = architecture_of(image);
  if (for_emulator(image) != device.emulator) return 0;
  if (a.sm > device.sm || (a.this_one_alone && a.sm != device.sm)) return 0;
  if (device.emulator) return a.sm == device.sm ? 1 : 0;
  const bool same_generation = a.sm / 10 == device.sm / 10;
  if (!image.cubin.empty() && same_generation) return 100000 + 2 * a.sm + a.this_one_alone;
  if (image.ptx.empty()) return 0;
  return 1 + 2 * a.sm + a.this_one_alone;
}

std::string why_not(const LaunchHandle& handle, std::span<const Arg> args) {
  if (handle.fits(args)) return "it was chosen for other values of the arguments";
  try {
    refuse_args(handle.image(), args);
  } catch (const LaunchError& error) {
    return error.what();
  }
}

// Positions of the named arguments among those of a launch, in parts.
std::vector<std::pair<size_t, Number>> positions(const KernelImage& image, const std::vector<ArgumentValue>& when) {
  std::vector<std::pair<size_t, Number>> out;
  for (const ArgumentValue& condition : when) {
    size_t param = 0, constant = 0;
    for (size_t i = 0; i < image.params.size() + image.constants.size(); ++i) {
      const bool compiled_in = constant < image.constants.size() && size_t(image.constants[constant].position) == i;
      const std::string& name = compiled_in ? image.constants[constant++].name : image.params[param++].name;
      if (name == condition.name) out.emplace_back(i, condition.value);
    }
  }
  return out;
}

std::string known_names(const Package& package) {
  std::vector<std::string> names;
  for (const PackagedKernel& k : package.kernels())
    if (std::find(names.begin(), names.end(), k.name) == names.end()) names.push_back(k.name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "no kernels" : text;
}

std::string targets_text(std::span<const PackagedKernel* const> kernels) {
  std::vector<std::string> texts;
  for (const PackagedKernel* k : kernels)
    for (const PackagedCode& code : k->codes) {
      std::string text = for_emulator(code.image) ? "the emulator of " + code.image.target : code.image.target;
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
    }
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

}  // namespace

int assumptions(const KernelImage& image) {
  int sum = 64 * int(image.constants.size());
  for (const ImageParam& p : image.params) sum += std::bit_width(uint64_t(std::max<int64_t>(p.divisible_by, 1)));
  return sum;
}

std::string Package::to_bytes(const PrivateKey* key) const {
  ByteWriter w;
  w.number(uint64_t(kernels_.size()));
  for (const PackagedKernel& k : kernels_) {
    w.bytes(k.name);
    w.bytes(k.config);
    write_facts(w, k);
    w.number(uint64_t(k.codes.size()));
    for (const PackagedCode& code : k.codes) {
      w.bytes(tegula::to_bytes(code.image));
      w.bytes(code.without_bulk_copies ? tegula::to_bytes(*code.without_bulk_copies) : std::string());
    }
  }
  const std::string payload = w.take();
  ByteWriter file;
  file.number(kVersion);
  file.bytes(key ? signature_bytes(key->sign(signed_part(payload))) : std::string());
  file.number(digest_of(payload));
  return std::string(kMagic) + file.take() + payload;
}

namespace {

// `key`: whose signature is expected; null: nobody's.
std::vector<PackagedKernel> kernels_of(std::string_view bytes, std::string_view name, const PublicKey* key) {
  auto wrong = [&](std::string_view why) { return FileError(fmt::format("'{}' {}", name, why)); };
  if (!bytes.starts_with(kMagic)) throw wrong("is no package of kernels\n  hint: `tegula build` makes one");
  bytes.remove_prefix(kMagic.size());
  ByteReader head(bytes);
  const uint32_t version = head.number<uint32_t>();
  if (!head.good()) throw wrong("is cut short");
  if (version != kVersion)
    throw wrong(
        fmt::format("is a package of format {}, this library reads format {}\n  hint: build it again with the "
                    "`tegula` command of this version",
                    version, kVersion));
  const std::string signature = head.bytes<std::string>();
  const uint64_t digest = head.number<uint64_t>();
  if (!head.good()) throw wrong("is cut short");
  if (!signature.empty() && signature.size() != sizeof(Signature)) throw wrong("is damaged: its signature is none");
  bytes.remove_prefix(sizeof version + sizeof(uint64_t) + signature.size() + sizeof digest);
  if (digest_of(bytes) != digest) throw wrong("is damaged: its digest does not match\n  hint: copy or build it again");

  if (key) check_signature(name, signature, bytes, *key);

  ByteReader r(bytes);
  std::vector<PackagedKernel> kernels(r.count());
  for (PackagedKernel& k : kernels) {
    k.name = r.bytes<std::string>();
    k.config = r.bytes<std::string>();
    read_facts(r, k);
    k.codes.resize(r.count());
    for (PackagedCode& code : k.codes) {
      auto image = image_from_bytes(r.bytes<std::string>());
      const std::string other = r.bytes<std::string>();
      if (!image)
        throw wrong(
            "was built by another version of Tegula\n  hint: build it again with the `tegula` command of this "
            "version");
      code.image = std::move(*image);
      if (!other.empty()) code.without_bulk_copies = image_from_bytes(other);
      r.require(k.grid.is_valid(code.image.params.size()));
    }
  }
  if (!r.good() || !r.at_end()) throw wrong("is damaged\n  hint: copy or build it again");
  return kernels;
}

}  // namespace

bool Package::is_package(const std::filesystem::path& file) { return read_file(file).starts_with(kMagic); }

Package Package::from_bytes(std::string_view bytes, std::string_view name) {
  Package package;
  package.kernels_ = kernels_of(bytes, name, nullptr);
  return package;
}

Package Package::from_bytes(std::string_view bytes, std::string_view name, const PublicKey& key) {
  Package package;
  package.kernels_ = kernels_of(bytes, name, &key);
  return package;
}

Package Package::read(const std::filesystem::path& file) { return from_bytes(read_file(file), file.string()); }
Package Package::read(const std::filesystem::path& file, const PublicKey& key) {
  return from_bytes(read_file(file), file.string(), key);
}

void Package::write(const std::filesystem::path& file, const PrivateKey* key) const {
  replace_file(file, to_bytes(key));
}

void Package::add(PackagedKernel kernel) {
  for (PackagedKernel& have : kernels_) {
    if (!same_specialisation(have, kernel)) continue;
    have.choices = both(have.choices, kernel.choices);
    if (kernel.grid) have.grid = kernel.grid;
    for (PackagedCode& code : kernel.codes) {
      auto same = std::find_if(have.codes.begin(), have.codes.end(), [&](const PackagedCode& other) {
        return other.image.target == code.image.target && for_emulator(other.image) == for_emulator(code.image);
      });
      if (same == have.codes.end())
        have.codes.push_back(std::move(code));
      else
        *same = std::move(code);
    }
    return;
  }
  kernels_.push_back(std::move(kernel));
}

std::string signature_text(const KernelImage& image) {
  std::string text;
  size_t param = 0;
  for (size_t i = 0; i < image.params.size() + image.constants.size(); ++i) {
    auto constant = std::find_if(image.constants.begin(), image.constants.end(),
                                 [&](const ImageConstant& c) { return size_t(c.position) == i; });
    if (!text.empty()) text += ", ";
    if (constant != image.constants.end()) {
      text += constant->pointer ? constant->name + " = None" : fmt::format("{} = {}", constant->name, constant->value);
      continue;
    }
    const ImageParam& p = image.params[param++];
    text += fmt::format("{}: {}{}", p.name, p.pointer ? "*" : "", elem_info(p.elem).text);
    if (p.divisible_by > 1) text += fmt::format(" a multiple of {}", p.divisible_by);
  }
  return "(" + text + ")";
}

std::string targets_text(const PackagedKernel& kernel) {
  const PackagedKernel* one[] = {&kernel};
  return targets_text(one);
}

uint64_t text_digest(std::string_view text) { return digest_of(text); }

LaunchHandle make_ready(Device& device, const PackagedCode& code) {
  Shared<LoadedKernel> kernel = device.load(code.image);
  if (!code.without_bulk_copies) return LaunchHandle(std::move(kernel));
  return LaunchHandle(std::move(kernel), [&device, other = *code.without_bulk_copies] {
    return Shared<LoadedKernel>(device.load(other));
  });
}

int64_t PackagedConfig::operator[](std::string_view name) const {
  std::vector<std::string> known;
  for (const NamedInteger& c : constexprs) {
    if (c.name == name) return c.value;
    known.push_back(c.name);
  }
  const auto near = nearest_name(name, known);
  throw LaunchError(fmt::format("the specialisation has no integer '{}' compiled in{}", name,
                                near ? fmt::format("\n  hint: did you mean '{}'?", *near) : ""));
}

const PackagedCode* code_for(const PackagedKernel& kernel, const DeviceInfo& device) {
  const PackagedCode* best = nullptr;
  for (const PackagedCode& code : kernel.codes)
    if (const int r = rank(code.image, device); r > (best ? rank(best->image, device) : 0)) best = &code;
  return best;
}

PackagedLaunch::PackagedLaunch(const Package& package, std::string_view name, Device& device, std::string_view config)
    : name_(name) {
  std::vector<const PackagedKernel*> named, chosen;
  for (const PackagedKernel& k : package.kernels())
    if (k.name == name && (config.empty() || k.config == config)) named.push_back(&k);
  if (named.empty())
    throw LaunchError(fmt::format("the package has no kernel '{}'{}; it has {}", name,
                                  config.empty() ? "" : fmt::format(" with '{}'", config), known_names(package)));
  for (const PackagedKernel* k : named)
    if (code_for(*k, device.info())) chosen.push_back(k);
  if (chosen.empty())
    throw LaunchError(fmt::format(
        "kernel '{}' of the package does not run on {} (compute capability {}.{}); it is built "
        "for {}\n  hint: `tegula build --target sm_{}` adds it",
        name, device.info().name, device.info().sm / 10, device.info().sm % 10, targets_text(named), device.info().sm));
  std::stable_sort(chosen.begin(), chosen.end(), [](const PackagedKernel* a, const PackagedKernel* b) {
    return assumptions(a->codes.front().image) > assumptions(b->codes.front().image);
  });
  for (const PackagedKernel* k : chosen) {
    handles_.push_back(make_ready(device, *code_for(*k, device.info())));
    configs_.push_back({k->config, k->constexprs});
    grids_.push_back(k->grid);
  }
  // A choice for this GPU before one for any, and that before one for another; then those for more values.
  struct Ranked {
    int gpu;
    Candidate candidate;
  };
  std::vector<Ranked> ranked;
  for (size_t form = 0; form < chosen.size(); ++form) {
    const std::vector<PackagedChoice> any(1);
    for (const PackagedChoice& choice : chosen[form]->choices.empty() ? any : chosen[form]->choices)
      ranked.push_back({choice.gpu == device.info().name ? 2 : choice.gpu.empty(),
                        {form, positions(handles_[form].image(), choice.when)}});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::pair(a.gpu, a.candidate.when.size()) > std::pair(b.gpu, b.candidate.when.size());
  });
  for (Ranked& r : ranked) candidates_.push_back(std::move(r.candidate));
}

void PackagedLaunch::launch(StreamHandle stream, OwnGrid, std::span<const Arg> args) const {
  const size_t form = find(args);
  if (!grids_[form])
    throw LaunchError(
        fmt::format("kernel '{}' of the package has no grid of its own\n  hint: pass one, or build it with "
                    "--grid 'cdiv(n, BLOCK)'",
                    name_));
  handles_[form].launch(stream, grids_[form](handles_[form].image(), args), args);
}

void PackagedLaunch::prewarm() const {
  for (const LaunchHandle& handle : handles_) handle.prepare_other();
}

size_t PackagedLaunch::find(std::span<const Arg> args) const {
  if (candidates_.size() == 1 && candidates_.front().when.empty()) return 0;  // which says itself what does not fit
  std::vector<Arg> parts;
  if (std::any_of(args.begin(), args.end(), [](const Arg& a) { return a.kind == Arg::Kind::Descriptor; })) {
    parts = in_parts(args);
    args = parts;
  }
  auto holds = [&](const std::pair<size_t, Number>& c) {
    return c.first < args.size() && has_value(args[c.first], c.second);
  };
  for (const Candidate& candidate : candidates_)
    if (std::all_of(candidate.when.begin(), candidate.when.end(), holds) && handles_[candidate.form].fits(args))
      return candidate.form;
  std::string text =
      fmt::format("kernel '{}': none of its {} specialisations takes these arguments", name_, handles_.size());
  for (const LaunchHandle& handle : handles_)
    text += fmt::format("\n  {}\n    {}", signature_text(handle.image()), why_not(handle, args));
  throw LaunchError(text);
}

}  // namespace tegula
