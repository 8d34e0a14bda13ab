#include "dsl/ready_table.h"

#include <algorithm>
#include <bit>

#include "dsl/specialize.h"

namespace tegula::dsl {

namespace {

// 1, or what an integer is a multiple of, in four bits.
uint64_t number_class(uint64_t value) {
  return value == 1 ? 0 : uint64_t(std::bit_width(uint64_t(divisor_class(value))));
}

// What classify() looks at in an argument, and a little more: kind, type, and the facts about its value, in 16 bits.
uint64_t class_of(const Arg& arg) {
  uint64_t elem = arg.elem ? uint64_t(*arg.elem) + 1 : 0;
  uint64_t facts = 0;
  switch (arg.kind) {
    case Arg::Kind::Pointer:
    case Arg::Kind::Descriptor:
      facts = arg.u == 0 ? 1 : arg.u % 16 == 0 ? 2 : 3;
      break;
    case Arg::Kind::Signed:
      facts = number_class(arg.u) | uint64_t(arg.i == int32_t(arg.i)) << 4;
      break;
    case Arg::Kind::Unsigned:
      facts = number_class(arg.u) | uint64_t(arg.u <= uint64_t(INT32_MAX)) << 4 |
              uint64_t(arg.u <= uint64_t(INT64_MAX)) << 5;
      break;
    case Arg::Kind::Float:
    case Arg::Kind::Bool:
      break;
  }
  return uint64_t(arg.kind) | elem << 3 | facts << 10;
}

// What a descriptor adds to that: its numbers of dimensions, padding, and for each dimension the facts about extent and
// stride, and the extent of its blocks. The numbers beyond those of a valid descriptor do not matter.
constexpr size_t kDescriptorWords = 3;
std::array<uint64_t, kDescriptorWords> words_of(const TensorDescriptor& d) {
  constexpr size_t kRank = 5;
  auto count = [](const std::vector<int64_t>& list) { return uint64_t(std::min<size_t>(list.size(), 15)); };
  auto twos = [](int64_t n) { return uint64_t(std::min(std::countr_zero(uint64_t(n)), 4)); };
  std::array<uint64_t, kDescriptorWords> words{count(d.shape) | count(d.strides) << 4 | count(d.block_shape) << 8 |
                                               uint64_t(d.pad_nan) << 12};
  for (size_t i = 0; i < std::min(d.shape.size(), kRank); ++i)
    words[0] |= (uint64_t(d.shape[i] == int32_t(d.shape[i])) | twos(d.shape[i]) << 1) << (16 + 4 * i);
  for (size_t i = 0; i < std::min(d.strides.size(), kRank); ++i) words[0] |= twos(d.strides[i]) << (36 + 3 * i);
  for (size_t i = 0; i < std::min(d.block_shape.size(), kRank); ++i)
    words[1 + i / 3] |= (uint64_t(d.block_shape[i]) & 0x1fffff) << 21 * (i % 3);
  return words;
}

// All options but constexprs, in 44 bits. A value that no option can have stands as one such value.
uint64_t word_of(const LaunchOptions& options) {
  constexpr auto bits = [](unsigned highest) { return std::bit_width(highest + 1); };
  constexpr int kAll = 4
#define TEGULA_OPTION(name, fallback, low, high, ...) +bits(high)
#include "codegen/ir/options.def"
      ;
  static_assert(kAll <= 44);
  uint64_t word = uint64_t(options.dependent_launch) << 3 | uint64_t(options.cooperative_grid) << 2 |
                  uint64_t(options.enable_fp_fusion) << 1 | uint64_t(options.sanitize_overflow);
#define TEGULA_OPTION(name, fallback, low, high, ...) \
  word = word << bits(high) | std::min(unsigned(options.name), (1u << bits(high)) - 1);
#include "codegen/ir/options.def"
  return word;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// By bits: a NaN is the same as itself, and -0.0 is not 0.0.
bool same(const ConstexprArg& a, const ConstexprArg& b) {
  const auto *x = std::get_if<double>(&a.value), *y = std::get_if<double>(&b.value);
  return x && y ? a.name == b.name && std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

}  // namespace

LaunchKey::LaunchKey(const Device& device, const LaunchOptions& options, std::span<const Arg> args,
                     std::span<const int> key_args)
    : device_(&device) {
  auto is_descriptor = [](const Arg& arg) { return arg.kind == Arg::Kind::Descriptor; };
  size_t needed = 2 + (args.size() + 3) / 4 + key_args.size() +
                  kDescriptorWords * size_t(std::count_if(args.begin(), args.end(), is_descriptor));
  if (needed > kInline) {
    more_.resize(needed);
    words_ = more_.data();
  }
  hash_ = mix(reinterpret_cast<uintptr_t>(&device), options.constexprs.size());
  add(word_of(options) << 20 | args.size());
  uint64_t word = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    word |= class_of(args[i]) << 16 * (i % 4);
    if (i % 4 == 3 || i + 1 == args.size()) add(word), word = 0;
  }
  for (int i : key_args)
    if (size_t(i) < args.size())
      add(args[size_t(i)].kind == Arg::Kind::Pointer || is_descriptor(args[size_t(i)]) ? 0 : args[size_t(i)].u);
  for (const Arg& arg : args)
    if (is_descriptor(arg))
      for (uint64_t facts : words_of(*arg.descriptor)) add(facts);
  for (const ConstexprArg& c : options.constexprs)
    if (const auto* i = std::get_if<int64_t>(&c.value)) hash_ = mix(hash_, uint64_t(*i));
}

void LaunchKey::add(uint64_t word) {
  words_[count_++] = word;
  hash_ = mix(hash_, word);
}

ReadyLaunch::ReadyLaunch(const LaunchKey& key, const LaunchOptions& options, LaunchHandle handle, Config config)
    : device(key.device()),
      hash(key.hash()),
      words(key.words().begin(), key.words().end()),
      constexprs(options.constexprs),
      handle(std::move(handle)),
      config(std::move(config)) {}

ReadyTable::~ReadyTable() {
  for (auto& bucket : buckets_)
    for (ReadyLaunch* launch = bucket.load(); launch;) delete std::exchange(launch, launch->next);
}

const ReadyLaunch* ReadyTable::find(const LaunchKey& key, const LaunchOptions& options) const {
  for (const ReadyLaunch* r = buckets_[key.hash() % kBuckets].load(std::memory_order_acquire); r; r = r->next)
    if (r->hash == key.hash() && r->device.load(std::memory_order_relaxed) == key.device() &&
        std::ranges::equal(r->words, key.words()) && std::ranges::equal(r->constexprs, options.constexprs, same))
      return r;
  return nullptr;
}

const ReadyLaunch* ReadyTable::insert(std::unique_ptr<ReadyLaunch> launch) {
  std::lock_guard lock(writing_);
  std::atomic<ReadyLaunch*>& bucket = buckets_[launch->hash % kBuckets];
  for (const ReadyLaunch* r = bucket.load(std::memory_order_relaxed); r; r = r->next)
    if (r->hash == launch->hash && r->device == launch->device && r->words == launch->words &&
        std::ranges::equal(r->constexprs, launch->constexprs, same))
      return r;
  launch->next = bucket.load(std::memory_order_relaxed);
  bucket.store(launch.get(), std::memory_order_release);
  return launch.release();
}

void ReadyTable::drop(const Device& device) {
  std::lock_guard lock(writing_);
  for (auto& bucket : buckets_)
    for (ReadyLaunch* r = bucket.load(std::memory_order_relaxed); r; r = r->next)
      if (r->device == &device) {
        r->device = nullptr;
        r->handle.reset();
      }
}

}  // namespace tegula::dsl
