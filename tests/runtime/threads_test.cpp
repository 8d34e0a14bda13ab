// Work on threads when the process ends.
#include "runtime/driver/threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>

#include "tests/build_folder.h"

namespace tegula {
namespace {

const std::string kLibrary = build_folder() / "tests/libtorn_down.so";

// The process ends while a thread works in the library; its status says whether that was there to the end.
[[noreturn]] void end_while_it_works() {
  if (!cuda::keep_loaded(kLibrary)) _exit(2);
  std::promise<void> nothing, begun;
  nothing.set_value();
  cuda::finish_before_exit(nothing.get_future().share());
  auto work = std::async(std::launch::async, [&] {
    auto* there = reinterpret_cast<bool (*)()>(dlsym(dlopen(kLibrary.c_str(), RTLD_NOW), "work"));
    begun.set_value();
    if (!there()) _exit(3);
  });
  cuda::finish_before_exit(work.share());
  begun.get_future().wait();
  std::exit(0);
}

TEST(Threads, LibrariesAreThereUntilTheWorkInThemIsDone) {
  EXPECT_EXIT(end_while_it_works(), testing::ExitedWithCode(0), "");
}

TEST(Threads, ALibraryThatIsNotThereIsNotKept) { EXPECT_FALSE(cuda::keep_loaded("libno-such-library.so.1")); }

}  // namespace
}  // namespace tegula
