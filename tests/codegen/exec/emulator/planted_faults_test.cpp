// label: device
// The faults of planted_faults.txt, one test a kind: each is found, in the lines that are marked.
#include <fstream>
#include <sstream>

#include "dsl/program.h"
#include "runtime/base/float16.h"
#include "runtime/base/messages.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

struct Planted {
  std::string kind, what, body;
  std::map<std::string, int> options = {{"programs", 1}, {"warps", 4}, {"ctas", 1}, {"steps", 0}};
  std::vector<int> lines = {};          ///< of the kernel's file, that the message names
  std::vector<std::string> words = {};  ///< that are in it
};

constexpr const char* kHead =
    "import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(x, y, z, u, h, n):\n"
    "    i = tl.arange(0, 256)\n    pid = tl.program_id(0)\n";
constexpr int kHeadLines = 6;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

Planted begin_case(const std::string& line) {
  std::istringstream parts(line.substr(4));
  std::string kind, what, options;
  std::getline(parts, kind, '|'), std::getline(parts, what, '|'), std::getline(parts, options);
  Planted c{trimmed(kind), trimmed(what), ""};
  std::istringstream words(options);
  for (std::string word; words >> word;)
    c.options.at(word.substr(0, word.find('='))) = std::stoi(word.substr(word.find('=') + 1));
  return c;
}

std::vector<Planted> cases_of(const std::string& kind) {
  std::ifstream in(TEGULA_SOURCE_DIR "/tests/codegen/exec/emulator/planted_faults.txt");
  std::vector<Planted> all;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("--- ")) {
      all.push_back(begin_case(line));
      number = kHeadLines;
    } else if (!all.empty() && !line.empty()) {
      ++number;
      all.back().body += "    " + line + "\n";
      if (const size_t mark = line.find("#!"); mark != line.npos) {
        all.back().lines.push_back(number);
        all.back().words.push_back(trimmed(line.substr(mark + 2)));
      }
    }
  }
  std::erase_if(all, [&](const Planted& c) { return c.kind != kind; });
  return all;
}

/// The error of the launch, or what it warned of.
std::string found_in(const Planted& c) {
  auto device = make_emulator({.check_races = true, .limit_steps = uint64_t(c.options.at("steps"))});
  std::vector<int32_t> numbers(512);
  std::iota(numbers.begin(), numbers.end(), 0);
  Array<int32_t> x(*device, numbers), y(*device, 512);
  Array<int16_t> h(*device, 4096);
  const uint64_t u = device->allocate(2048);
  const auto pointer = [](uint64_t address) { return reinterpret_cast<int32_t*>(address); };
  std::string warnings;
  const MessageHandler before =
      set_message_handler([&](MessageKind, std::string_view text) { warnings += std::string(text) + "\n"; });
  const std::string error = error_of([&] {
    Program::parse(kHead + c.body, "k.py")
        .kernel("kernel")
        .launch(*device, {unsigned(c.options.at("programs"))},
                {.num_warps = c.options.at("warps"), .num_ctas = c.options.at("ctas")}, pointer(x.address()),
                pointer(y.address()), pointer(x.address()), pointer(u), reinterpret_cast<float16*>(h.address()), 65536);
  });
  set_message_handler(before);
  device->free(u);
  return error == "no error" ? warnings : error;
}

void expect_found(const std::string& kind, size_t at_least) {
  const std::vector<Planted> cases = cases_of(kind);
  EXPECT_GE(cases.size(), at_least);
  size_t all_found = 0;
  for (const Planted& c : cases) {
    SCOPED_TRACE(c.what + "\n" + c.body);
    ASSERT_FALSE(c.lines.empty());
    const std::string found = found_in(c);
    bool missed = false;
    const auto expect = [&](const std::string& part) {
      missed |= found.find(part) == found.npos;
      EXPECT_CONTAINS(found, part);
    };
    for (int line : c.lines) expect(fmt::format("k.py:{}:", line));
    for (const std::string& words : c.words) expect(words);
    all_found += !missed;
  }
  tell_planted(all_found, cases.size());
}

TEST(PlantedFaults, Races) { expect_found("race", 67); }
TEST(PlantedFaults, UnwrittenMemory) { expect_found("unwritten", 36); }
TEST(PlantedFaults, Bounds) { expect_found("bounds", 27); }
TEST(PlantedFaults, ProgramsWithoutEnd) { expect_found("endless", 10); }
TEST(PlantedFaults, Overflow) { expect_found("overflow", 12); }
TEST(PlantedFaults, Arithmetic) { expect_found("arithmetic", 13); }

// Whole vectors are loaded, of which some elements are there.
TEST(PlantedFaults, NoneWhereNothingFollowsFromUnwrittenMemory) {
  for (const char* body : {
           "tl.store(u + i, i, mask=i < 101)\nv = tl.load(u + i)\ntl.store(y + i, tl.where(i < 101, v, 0))",
           "tl.store(u + i, i, mask=i < 102)\nv = tl.load(u + i)\ntl.store(y + i, v * 3 + 1, mask=i < 102)",
           "v = tl.load(u + i)\ntl.store(y + i, tl.where(tl.load(x + i) > 600, v // 3, 7))",
           "v = tl.load(u + i)\nif tl.load(x + 1) > 600:\n    tl.store(y + i, v)",
           "tl.store(h + i, 1.0, mask=i < 77)\nv = tl.load(h + i).to(tl.float32)\n"
           "tl.store(y, tl.sum(tl.where(i < 77, v, 0.0), 0).to(tl.int32))",
           "r = tl.arange(0, 16)\nm = r[:, None] >= r[None, :]\nat = u + r[:, None] * 16 + r[None, :]\n"
           "tl.store(at, 3, mask=m)\na = tl.where(m, tl.load(at), 0).to(tl.float16)\n"
           "tl.store(y + r[:, None] * 16 + r[None, :], tl.dot(a, a).to(tl.int32))",
           // Exchanged between threads, and dropped then.
           "tl.store(u + i, i, mask=i < 101)\nv = tl.cumsum(tl.load(u + i), 0)\ntl.store(y + i, v, mask=i < 101)",
           "tl.store(u + i, i, mask=i >= 100)\nv = tl.flip(tl.load(u + i))\ntl.store(y + i, tl.where(i < 156, v, 0))",
           "r = tl.arange(0, 16)\nat = r[:, None] * 16 + r[None, :]\ntl.store(u + at, at, mask=r[:, None] < 5)\n"
           "v = tl.trans(tl.load(u + at))\ntl.store(y + at, tl.where(r[None, :] < 5, v, 0))",
           "r = tl.arange(0, 16)\nat = r[:, None] * 16 + r[None, :]\ntl.store(u + at, at, mask=r[:, None] < 5)\n"
           "s = tl.sum(tl.load(u + at), 1)\ntl.store(y + r, s, mask=r < 5)",
           "r = tl.arange(0, 16)\nat = r[:, None] * 16 + r[None, :]\nm = r[:, None] >= r[None, :]\n"
           "tl.store(h + 16 * 16 + at, at, mask=m)\na = tl.where(m, tl.load(h + 16 * 16 + at), 0)\n"
           "tl.store(y + at, tl.dot(a, tl.trans(a)).to(tl.int32))",
           "v = tl.load(u + i)\nj = tl.where(tl.load(x + i) < 0, tl.gather(v, i, 0), 5)\ntl.store(y + i, j)",
           "q = u.to(tl.pointer_type(tl.int8))\ntl.store(q + i, 1, mask=i < 101)\nv = tl.load(q + i) + 1\n"
           "tl.store(y + i, tl.where(i < 101, v, 7))",
           "q = u.to(tl.pointer_type(tl.int8))\ntl.store(q + i, 1, mask=i < 101)\nv = tl.cumsum(tl.load(q + "
           "i).to(tl.int32), 0)\n"
           "tl.store(y + i, v, mask=i < 101)",
           "q = u.to(tl.pointer_type(tl.float64))\nj = tl.arange(0, 128)\nv = tl.exp(tl.load(q + j))\n"
           "tl.store(y + j, tl.where(tl.load(x + j) > 600, v, 7.0).to(tl.int32))",
           "q = u.to(tl.pointer_type(tl.int16))\ntl.store(q + 2 * i + 1, 3)\ntl.debug_barrier()\n"
           "tl.store(y + i, tl.load(u + i) >> 16)",
           "q = u.to(tl.pointer_type(tl.int8))\ntl.store(q + i, 56, mask=i < 101)\n"
           "v = tl.load(q.to(tl.pointer_type(tl.float8e4nv)) + i).to(tl.float16)\n"
           "tl.store(y + i, tl.where(i < 101, v, 7.0).to(tl.int32))",
           "d = tl.make_tensor_descriptor(u, [32, 16], [16, 1], [16, 16])\nr = tl.arange(0, 16)\n"
           "at = r[:, None] * 16 + r[None, :]\ntl.store(u + at, at, mask=r[:, None] < 7)\n"
           "tl.store(y + at, tl.where(r[:, None] < 7, d.load([0, 0]), 0))",
           "r = tl.arange(0, 16)\nat = r[:, None] * 16 + r[None, :]\nm = r[:, None] >= r[None, :]\n"
           "tl.store(u + at, at, mask=m)\nacc = tl.zeros((16, 16), tl.float32)\nfor k in range(n - 65533):\n"
           "    a = tl.where(m, tl.load(u + (at * 8 + k) // 8), 0).to(tl.float16)\n    acc = tl.dot(a, tl.trans(a), "
           "acc)\n"
           "tl.store(y + at, acc.to(tl.int32))",
           // Rows of a product's first operand, dropped behind it.
           "r = tl.arange(0, 64)\nat = r[:, None] * 64 + r[None, :]\nm = r[:, None] < 5\n"
           "q = u.to(tl.pointer_type(tl.int8))\ntl.store(q + at % 2048, 3, mask=m)\n"
           "v = tl.load(q + at % 2048, mask=r[:, None] < 32, other=0).to(tl.float16)\na = tl.load(h + at)\n"
           "p = tl.dot(tl.dot(v, a).to(tl.float16), a)\ntl.store(y + at, p.to(tl.int32), mask=m)",
           "v = tl.load(u + i)\nfor k in range(n - 65530):\n    v = tl.where(k < 3, v * 2, i)\ntl.store(y + i, v)",
           "v = tl.load(x + i)\nfor k in range(n - 65533):\n    tl.store(y + i, v)\n"
           "    v = tl.where(tl.load(x + i) > 600, tl.load(u + i), k)\n    tl.debug_barrier()",
       }) {
    std::string lines;
    std::istringstream in(body);
    for (std::string line; std::getline(in, line);) lines += "    " + line + "\n";
    for (auto [warps, ctas] : {std::pair(1, 1), std::pair(4, 1), std::pair(4, 2)}) {
      SCOPED_TRACE(fmt::format("{} warps, {} blocks\n{}", warps, ctas, body));
      EXPECT_EQ(found_in({"", "", lines, {{"programs", 1}, {"warps", warps}, {"ctas", ctas}, {"steps", 0}}}), "");
    }
  }
}

}  // namespace
}  // namespace tegula
