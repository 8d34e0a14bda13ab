// Random numbers by the counter: Philox 4x32 and 4x64, and what floats are made of its words. Equal seeds and counters
// give the numbers that Triton gives.
#include <fmt/format.h>

#include <array>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

namespace {

using Words = std::array<ir::Value*, 4>;

/// Constants of Philox for words of one width.
struct Philox {
  int64_t key_a, key_b;      ///< added to the key after each round
  int64_t round_a, round_b;  ///< factors of the counter's words
};
constexpr Philox kPhilox32 = {0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57};
constexpr Philox kPhilox64 = {int64_t(0x9E3779B97F4A7C15), int64_t(0xBB67AE8584CAA73B), int64_t(0xD2E7470EE14C6C93),
                              int64_t(0xCA5A826395121157)};

Val call(Sema& s, const char* function, std::vector<Val> args) {
  return call_function(s, *find_function(function), std::move(args), {});
}

Val tuple_of(const Words& words) { return make_tuple(std::vector<Val>(words.begin(), words.end())); }

/// An integer value, or null after an error.
ir::Value* integer(Sema& s, const Val& x, const char* function, const char* what) {
  ir::Value* v = to_value(s, x, fmt::format("the {} of {}", what, function));
  if (!v || v->type.is_integer()) return v;
  s.error(fmt::format("the {} of {} is an integer, found {}", what, function, describe(x)));
  return nullptr;
}

/// The same bits as another type of the width.
ir::Value* with_bits_of(Sema& s, ir::Value* x, Elem elem) {
  return x->type.elem == elem ? x : s.builder.bitcast(x, ir::Type::scalar(elem));
}

/// The number of rounds, or nullopt after an error.
std::optional<Int> rounds_of(Sema& s, const Val& x) {
  auto rounds = to_int(s, x, "n_rounds");
  if (rounds && (*rounds < 0 || *rounds > 64)) {
    s.error(fmt::format("n_rounds is {}, expected 0 to 64", *rounds));
    return std::nullopt;
  }
  return rounds;
}

/// Rounds of Philox on counters and a key of one unsigned type, which are brought to one shape.
std::optional<Words> philox_rounds(Sema& s, Words c, ir::Value* k0, ir::Value* k1, Int rounds) {
  ir::Builder& b = s.builder;
  const Elem elem = c[0]->type.elem;
  const Philox& constants = elem == Elem::U32 ? kPhilox32 : kPhilox64;
  auto plus = [&](ir::Value* x, int64_t n) { return b.add(x, b.constant(x->type, n)); };
  for (ir::Value* other : {c[1], c[2], c[3], k0, k1})
    if (!broadcast_pair(s, c[0], other)) return std::nullopt;
  for (ir::Value*& word : c) word = broadcast_value(s, word, c[0]->type.shape);
  ir::Value *a = b.constant(c[0]->type, constants.round_a), *bb = b.constant(c[0]->type, constants.round_b);
  for (Int round = 0; round < rounds; round = round + 1) {
    ir::Value *key0 = broadcast_value(s, k0, c[0]->type.shape), *key1 = broadcast_value(s, k1, c[0]->type.shape);
    c = {b.bit_xor(b.bit_xor(b.umulhi(bb, c[2]), c[1]), key0), b.mul(bb, c[2]),
         b.bit_xor(b.bit_xor(b.umulhi(a, c[0]), c[3]), key1), b.mul(a, c[0])};
    k0 = plus(k0, constants.key_a);
    k1 = plus(k1, constants.key_b);
  }
  return c;
}

std::optional<Words> philox(Sema& s, const Val& seed_value, Words c, Int rounds) {
  ir::Builder& b = s.builder;
  ir::Value* seed = integer(s, seed_value, "philox", "seed");
  if (!seed) return std::nullopt;
  seed = cast_to(s, seed, Elem::U64);
  const int bits = c[0]->type.bits();
  for (ir::Value* word : c)
    if (word->type.bits() != bits || bits < 32) {
      s.error(fmt::format("philox takes four counters of 32 bits or four of 64, found {} and {}", describe(c[0]),
                          describe(word)));
      return std::nullopt;
    }
  const Elem elem = bits == 32 ? Elem::U32 : Elem::U64;
  for (ir::Value*& word : c) word = with_bits_of(s, word, elem);
  if (bits == 32) {
    ir::Value* high = b.shr(seed, b.constant(seed->type, 32));
    high = cast_to(s, high, elem);
    return philox_rounds(s, c, cast_to(s, seed, elem), high, rounds);
  }
  return philox_rounds(s, c, seed, b.constant(ir::Type::tile(elem, {1}), 0), rounds);
}

/// An integer value, or a float of up to 32 bits, which becomes uint32; null after an error.
ir::Value* offset_of(Sema& s, const Val& x) {
  const std::string what = "the offset of the random numbers";
  ir::Value* v = x.is<double>() && !x.typed ? nullptr : to_value(s, x, what);
  if (x.is_poison() || (v && (v->type.is_integer() || (v->type.is_float() && v->type.bits() <= 32)))) return v;
  s.error(fmt::format("{} is an integer or a float of up to 32 bits, found {}", what, describe(x)));
  return nullptr;
}

/// Four words of 32 bits for each offset.
std::optional<Words> words_at(Sema& s, const Val& seed, const Val& offset_value, const Val& n_rounds) {
  ir::Builder& b = s.builder;
  ir::Value* offset = offset_of(s, offset_value);
  auto rounds = rounds_of(s, n_rounds);
  if (!offset || !rounds) return std::nullopt;
  ir::Value* low = cast_to(s, offset, Elem::U32);
  ir::Value* zero = b.constant(low->type, 0);
  ir::Value* high = zero;
  if (offset->type.bits() > 32) high = cast_to(s, b.shr(offset, b.constant(offset->type, 32)), Elem::U32);
  return philox(s, seed, {low, high, zero, zero}, *rounds);
}

/// A random word as a float32 in [0, 1): half of the words, those with the top bit, count downwards.
Val uniform(Sema& s, ir::Value* word) {
  ir::Builder& b = s.builder;
  const bool narrow = word->type.bits() == 32;
  word = with_bits_of(s, word, narrow ? Elem::I32 : Elem::I64);
  ir::Value* negative = b.lt(word, b.constant(word->type, 0));
  ir::Value* magnitude = b.select(negative, b.bit_xor(word, b.constant(word->type, -1)), word);
  // The largest factors whose product with the largest word rounds to less than 1.
  return binary(s, "*", magnitude, narrow ? 4.6566127342e-10 : 1.0842020432385337e-19);
}

/// Box and Muller's transform: two independent normal numbers.
std::pair<Val, Val> normal_pair(Sema& s, const Val& u1, const Val& u2) {
  Val at_least = call(s, "maximum", {1.0e-7, u1});
  Val angle = binary(s, "*", 6.283185307179586, u2);
  Val radius = call(s, "sqrt", {binary(s, "*", -2.0, call(s, "log", {at_least}))});
  return {binary(s, "*", radius, call(s, "cos", {angle})), binary(s, "*", radius, call(s, "sin", {angle}))};
}

/// Of two random words.
std::pair<Val, Val> normal_pair(Sema& s, ir::Value* word1, ir::Value* word2) {
  const Val u2 = uniform(s, word2);
  return normal_pair(s, uniform(s, word1), u2);
}

}  // namespace

Val fn_philox_impl(Sema& s, Args args) {
  static constexpr const char* kNames[] = {"c0", "c1", "c2", "c3", "k0", "k1"};
  std::vector<ir::Value*> in;
  for (size_t i = 0; i < 6; ++i) {
    in.push_back(integer(s, args[i], "philox_impl", kNames[i]));
    if (!in.back()) return {};
  }
  auto rounds = rounds_of(s, args[6]);
  if (!rounds) return {};
  const Elem elem = in[0]->type.elem;
  for (size_t i = 0; i < 6; ++i) {
    if ((elem != Elem::U32 && elem != Elem::U64) || in[i]->type.bits() != elem_bits(elem))
      return s.error(
          fmt::format("philox_impl takes words of uint32 or of uint64, found {} for {}", describe(in[i]), kNames[i]));
    in[i] = with_bits_of(s, in[i], elem);
  }
  auto words = philox_rounds(s, {in[0], in[1], in[2], in[3]}, in[4], in[5], *rounds);
  return words ? tuple_of(*words) : Val();
}

Val fn_philox(Sema& s, Args args) {
  static constexpr const char* kNames[] = {"c0", "c1", "c2", "c3"};
  Words c{};
  for (size_t i = 0; i < 4; ++i)
    if (!(c[i] = integer(s, args[i + 1], "philox", kNames[i]))) return {};
  auto rounds = rounds_of(s, args[5]);
  if (!rounds) return {};
  auto words = philox(s, args[0], c, *rounds);
  return words ? tuple_of(*words) : Val();
}

Val fn_randint4x(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  return words ? tuple_of(*words) : Val();
}

Val fn_randint(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  return words ? Val((*words)[0]) : Val();
}

Val fn_uint_to_uniform_float(Sema& s, Args args) {
  ir::Value* x = integer(s, args[0], "uint_to_uniform_float", "argument");
  if (!x) return {};
  if (x->type.bits() < 32)
    return s.error(fmt::format("uint_to_uniform_float takes integers of 32 or 64 bits, found {}", describe(x)));
  return uniform(s, x);
}

Val fn_rand4x(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  if (!words) return {};
  std::vector<Val> out;
  for (ir::Value* word : *words) out.push_back(uniform(s, word));
  return make_tuple(std::move(out));
}

Val fn_rand(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  return words ? uniform(s, (*words)[0]) : Val();
}

Val fn_pair_uniform_to_normal(Sema& s, Args args) {
  auto [x, y] = normal_pair(s, args[0], args[1]);
  return x.is_poison() || y.is_poison() ? Val() : make_tuple({x, y});
}

Val fn_randn4x(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  if (!words) return {};
  auto [x, y] = normal_pair(s, (*words)[0], (*words)[1]);
  auto [z, w] = normal_pair(s, (*words)[2], (*words)[3]);
  return make_tuple({x, y, z, w});
}

Val fn_randn(Sema& s, Args args) {
  auto words = words_at(s, args[0], args[1], args[2]);
  if (!words) return {};
  return normal_pair(s, (*words)[0], (*words)[1]).first;
}

}  // namespace tegula::dsl
