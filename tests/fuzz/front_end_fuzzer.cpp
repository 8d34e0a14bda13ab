// libFuzzer's entry points: see run.sh. Every other mutation is of words or lines, since most texts whose bytes were
// changed do not get past the parser.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>

#include "dsl/hooks.h"
#include "dsl/language/default_capability.h"
#include "tests/fuzz/front_end.h"

// Nothing is launched here that hooks could work on, and there are no devices.
namespace tegula {
std::optional<int> language::default_capability() { return 90; }
bool HookedLaunch::is_descriptor(std::string_view) const { return false; }
void HookedLaunch::zero(std::string_view) {}
void HookedLaunch::set_block_shape(std::string_view, std::vector<int64_t>) {}
}  // namespace tegula

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Parts = std::vector<std::string>;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// Names (with their dots), numbers, runs of spaces and single other characters.
Parts words_of(const std::string& text) {
  Parts words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (in_word(text[i]))
      while (end < text.size() && in_word(text[end])) ++end;
    else if (text[i] == ' ')
      while (end < text.size() && text[end] == ' ') ++end;
    words.push_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

Parts lines_of(const std::string& text) {
  Parts lines;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size() - 1) + 1;
    lines.push_back(text.substr(i, end - i));
    i = end;
  }
  return lines;
}

/// Replaces, removes, repeats or swaps a part.
void change(Parts& parts, std::mt19937& random) {
  const auto any = [&] { return random() % parts.size(); };
  const size_t at = any(), other = any();
  switch (random() % 5) {
    case 0:
    case 1:
      parts[at] = std::string(parts[other]);
      break;
    case 2:
      parts.erase(parts.begin() + at);
      break;
    case 3:
      parts.insert(parts.begin() + at, std::string(parts[other]));
      break;
    case 4:
      std::swap(parts[at], parts[other]);
      break;
  }
}

std::string text_of(const Parts& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::string text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// Whether a loop at compile time may have hundreds of iterations. They are bounded, but take what fuzzing has for
/// thousands of other texts.
bool unrolls_much(const std::string& text) {
  int digits = 0;
  for (size_t i = text.find("static_range"); i < text.size(); ++i) {
    digits = std::isdigit(static_cast<unsigned char>(text[i])) ? digits + 1 : 0;
    if (digits > 2) return true;
  }
  return false;
}

size_t write(const std::string& text, uint8_t* data, size_t max_size) {
  const size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = text_of(data, size);
  if (!unrolls_much(text)) tegula::fuzz::run_front_end(text);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  if (size == 0 || random() % 2) return LLVMFuzzerMutate(data, size, max_size);
  Parts parts = random() % 3 ? words_of(text_of(data, size)) : lines_of(text_of(data, size));
  for (size_t i = random() % 3 + 1; i > 0 && !parts.empty(); --i) change(parts, random);
  return write(text_of(parts), data, max_size);
}

/// The lines of one text with some of another's among them: names that both have make it a program at times.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2,
                                            uint8_t* out, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  Parts lines = lines_of(text_of(data1, size1));
  const Parts others = lines_of(text_of(data2, size2));
  if (lines.empty() || others.empty()) return write(text_of(lines), out, max_size);
  const size_t from = random() % others.size(), count = random() % std::min<size_t>(others.size() - from, 8) + 1;
  lines.insert(lines.begin() + random() % lines.size(), others.begin() + from, others.begin() + from + count);
  return write(text_of(lines), out, max_size);
}
