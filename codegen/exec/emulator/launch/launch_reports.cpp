// What a launch tells of its programs: faults, warnings and prints, in the order of the programs' numbers.
#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {

void Launch::record(Fault found) {
  std::lock_guard lock(mutex_);
  std::vector<Fault::Standing> standings = std::move(found.standings);
  const bool joins = fault && fault->kind == found.kind && !standings.empty();
  if (joins) standings.insert(standings.end(), fault->standings.begin(), fault->standings.end());
  if (joins || !fault || found.program < fault->program)
    fault = std::move(found), fault->standings = std::move(standings);
  stop.store(true, std::memory_order_relaxed);
}

void Launch::warn(Warning what, uint32_t place, const Warned& who) {
  std::lock_guard lock(mutex_);
  const auto [known, is_new] = warnings.try_emplace({what, place}, who);
  Warned& first = known->second;
  if (!is_new && std::tie(who.z, who.y, who.x) < std::tie(first.z, first.y, first.x)) first = who;
}

uint64_t Launch::program_at(uint64_t turn) const {
  const uint64_t odd = programs % 2 ? std::min<uint64_t>(programs, 3) : 0, pairs = programs - odd;
  if (!exchanges_neighbours) return turn;
  return turn < pairs ? turn ^ 1 : pairs + (turn - pairs + 2) % odd;
}

void Prints::add(uint32_t statement, uint32_t position, uint32_t index, std::string line) {
  lines_.push_back({statement, position >> 16, index, std::move(line)});
}

std::string Prints::take() {
  auto key = [](const Line& line) { return std::tuple(line.statement, line.operand, line.index); };
  std::stable_sort(lines_.begin(), lines_.end(), [&](const Line& a, const Line& b) { return key(a) < key(b); });
  std::string all;
  for (const Line& line : std::exchange(lines_, {})) all += line.text;
  return all;
}

/// At once, so that the lines of programs that end at a time stay together; where programs do not begin in the order of
/// their numbers, when those before have ended as well.
void Worker::print(Program& program) {
  printed_[program.number * launch_->blocks + program.block] += program.prints.take();
  print_ended(!launch_->exchanges_neighbours);
}

void Worker::print_ended(bool all) {
  while (!printed_.empty() && (all || printed_.begin()->first == next_printed_)) {
    const auto [number, text] = *printed_.begin();
    printed_.erase(printed_.begin());
    next_printed_ = number + 1;
    if (text.empty()) continue;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace tegula::emulator
