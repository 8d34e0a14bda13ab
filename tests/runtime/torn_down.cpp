// A library that knows whether the end of the process has torn it down.
#include <chrono>
#include <thread>

namespace {

struct State {
  volatile bool there = true;  // or a destructor would not bother
  ~State() { there = false; }
};
State state;

}  // namespace

/// Works for a while; whether the library was there to the end.
extern "C" bool work() {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return state.there;
}
