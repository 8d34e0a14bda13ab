// The fibers of a worker that can run, in the order of their turns.
//
// In order, one has its turn after all that could run before it. At random, turns come in rounds: whoever can run has a
// turn in each round, and those who may wait for what others store end theirs (push_behind), so that nobody waits for
// ever for a thread that could run.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace tegula::emulator {

struct Fiber;

class ReadyQueue {
 public:
  /// Forgets all fibers.
  void clear() { head_ = tail_ = round_ = 0; }
  /// Room for so many, beside those that are there.
  void reserve(size_t fibers) {
    if (ring_.size() >= fibers) return;
    std::vector<Fiber*> larger(std::bit_ceil(fibers));
    for (size_t i = head_; i != tail_; ++i) larger[i - head_] = at(i);
    round_ -= head_, tail_ -= head_, head_ = 0;
    ring_ = std::move(larger);
    mask_ = ring_.size() - 1;
  }
  bool empty() const { return head_ == tail_; }

  /// Behind all others.
  void push_behind(Fiber* fiber) { at(tail_++) = fiber; }
  /// Into the round that runs.
  void push_into_round(Fiber* fiber) {
    push_behind(fiber);
    std::swap(at(tail_ - 1), at(round_++));
  }

  Fiber* pop() { return at(head_++); }
  /// Those left of the round, or of the next one where it is over.
  size_t left_of_round() {
    if (head_ == round_) round_ = tail_;
    return round_ - head_;
  }
  Fiber* peek(size_t i) const { return ring_[(head_ + i) & mask_]; }
  /// Has the one that is in place `i` of the round come first.
  void bring_forward(size_t i) { std::swap(at(head_), at(head_ + i)); }

 private:
  Fiber*& at(size_t i) { return ring_[i & mask_]; }

  std::vector<Fiber*> ring_;
  size_t mask_ = 0;
  size_t head_ = 0, round_ = 0, tail_ = 0;  ///< the first fiber, the first of the next round, and behind the last one
};

}  // namespace tegula::emulator
