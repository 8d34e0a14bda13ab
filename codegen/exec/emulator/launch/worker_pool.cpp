// The host threads of the workers, and what ends a launch from outside: Ctrl-C, its limit of time, the caller.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {

namespace {

/// A launch that has not ended by then is long enough for more workers: to give one its stacks and to wake it takes
/// some tenth of that.
constexpr auto kAlone = std::chrono::milliseconds(1);

}  // namespace

WorkerPool::WorkerPool(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>());
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
  }
  for (HostThread& host : threads_) host.begin.notify_one();
  for (HostThread& host : threads_) host.thread.join();
}

namespace {

std::atomic<bool> interrupted;
void note_interrupt(int) { interrupted.store(true, std::memory_order_relaxed); }

/// While it lives, Ctrl-C sets `interrupted`, and does what it did before when the last of these is gone.
class Interrupts {
 public:
  Interrupts() {
    std::lock_guard lock(mutex);
    if (users++) return;
    interrupted = false;
    struct sigaction action {};
    action.sa_handler = note_interrupt;
    sigaction(SIGINT, &action, &before);
  }
  /// Ctrl-C was seen, and a handler of the program's own will be told of it.
  static bool is_for_program() { return interrupted && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN; }
  ~Interrupts() {
    std::lock_guard lock(mutex);
    if (--users) return;
    sigaction(SIGINT, &before, nullptr);
    // A program's own handler is to know: Python's raises KeyboardInterrupt.
    if (is_for_program()) std::raise(SIGINT);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  inline static std::mutex mutex;
  inline static int users = 0;
  inline static struct sigaction before;
};

}  // namespace

/// A launch that takes long can be interrupted, and ends at its limit of time.
void WorkerPool::wait_for_end(std::unique_lock<std::mutex>& lock, Launch& launch) {
  using namespace std::chrono;
  constexpr auto kShort = milliseconds(100), kBetween = milliseconds(20);
  const auto begin = steady_clock::now();
  auto ended = [&] { return left_ == 0; };
  auto seconds = [&] { return duration<double>(steady_clock::now() - begin).count(); };
  auto stop = [&](const char* why) {
    const char* none = nullptr;
    launch.stopped.compare_exchange_strong(none, why);
    launch.stop.store(true, std::memory_order_relaxed);
  };
  if (done_.wait_for(lock, kShort, ended)) return;
  Interrupts interrupts;
  auto tell = [&] {
    const double computed = (processor_seconds() - seconds_before_) / double(wanted_);
    lock.unlock();
    std::exception_ptr error;
    try {
      launch.goes_on(computed);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error) return;
    launch.host_error = error;
    launch.stop.store(true, std::memory_order_relaxed);
  };
  while (!done_.wait_for(lock, kBetween, ended)) {
    if (interrupted.load(std::memory_order_relaxed)) {
      launch.report_to_stderr = Interrupts::is_for_program();
      stop("by Ctrl-C");
    }
    if (launch.limit_s > 0 && seconds() > launch.limit_s)
      stop("at the limit of time of TEGULA_EMULATOR_LIMIT or EmulatorOptions");
    else if (!launch.stop)
      tell();
  }
}

double WorkerPool::processor_seconds() {
  double sum = 0;
  for (HostThread& host : threads_) {
    clockid_t clock{};
    timespec now{};
    if (pthread_getcpuclockid(host.thread.native_handle(), &clock) != 0 || clock_gettime(clock, &now) != 0) continue;
    sum += double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
  }
  return sum;
}

double WorkerPool::run(Launch& launch) {
  std::lock_guard run_lock(run_mutex_);
  const uint64_t useful = (launch.programs + launch.resident_programs - 1) / launch.resident_programs;
  const size_t most = launch.check_races ? 1 : size_t(std::min<uint64_t>(workers_.size(), useful));
  std::unique_lock lock(mutex_);
  wanted_ = left_ = 0;
  seconds_before_ = processor_seconds();
  want(launch, launch.resident_programs > 1 ? most : 1);  // programs that may wait for each other begin together
  if (wanted_ < most && !done_.wait_for(lock, kAlone, [&] { return left_ == 0; }) &&
      launch.next_program.load(std::memory_order_relaxed) < launch.programs) {
    try {
      want(launch, most);
    } catch (const std::system_error&) {  // the host starts no more threads
      want(launch, std::min(most, threads_.size()));
    }
  }
  wait_for_end(lock, launch);
  if (launch.host_error) std::rethrow_exception(launch.host_error);
  return (processor_seconds() - seconds_before_) / double(wanted_);
}

/// Starts further workers on the launch, up to so many.
void WorkerPool::want(Launch& launch, size_t workers) {
  while (threads_.size() < workers) threads_.emplace_back(*this, *workers_[threads_.size()]);
  for (; wanted_ < workers; ++wanted_, ++left_) {
    threads_[wanted_].launch = &launch;
    threads_[wanted_].begin.notify_one();
  }
}

void WorkerPool::work(Worker& worker, HostThread& host) {
  std::unique_lock lock(mutex_);
  for (;;) {
    host.begin.wait(lock, [&] { return quit_ || host.launch; });
    if (quit_) return;
    Launch& launch = *std::exchange(host.launch, nullptr);
    lock.unlock();
    std::exception_ptr error;
    try {
      worker.run(launch);
    } catch (...) {
      error = std::current_exception();
      launch.stop.store(true, std::memory_order_relaxed);
    }
    lock.lock();
    if (error) launch.host_error = error;
    if (--left_ == 0) done_.notify_all();
  }
}

}  // namespace tegula::emulator
