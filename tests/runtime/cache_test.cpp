// The image cache: round trips, every kind of damage, folders that do not work, size, many processes at once.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "runtime/base/error.h"
#include "tests/runtime/cache_fixture.h"

namespace tegula {
namespace {

TEST(ContentKey, DependsOnPartsAndTheirBorders) {
  EXPECT_EQ(content_key({"ab", "c"}), content_key({"ab", "c"}));
  EXPECT_NE(content_key({"ab", "c"}), content_key({"a", "bc"}));
  EXPECT_NE(content_key({"ab", "c"}), content_key({"abc"}));
  EXPECT_NE(content_key({"a"}), content_key({"a", ""}));
  EXPECT_EQ(content_key({"a"}).size(), 32u);
  EXPECT_EQ(content_key({}), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
}

TEST(ImageBytes, RoundTrip) {
  for (const KernelImage& image : {sample(), KernelImage()}) {
    std::string bytes = to_bytes(image);
    auto back = image_from_bytes(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, image);  // sites by interned file
    EXPECT_EQ(to_bytes(*back), bytes);
    EXPECT_FALSE(image_from_bytes(bytes + 'x'));
    for (size_t n = 0; n < bytes.size(); n = n < 300 || n + 300 > bytes.size() ? n + 1 : n + 97)
      EXPECT_FALSE(image_from_bytes(bytes.substr(0, n))) << n;
  }
}

TEST(ImageBytes, WildBytesAreRefusedOrRead) {
  std::string bytes = to_bytes(sample());
  for (size_t i = 0; i < bytes.size(); i = i < 300 || i + 300 > bytes.size() ? i + 1 : i + 97) {
    std::string wild = bytes;
    wild[i] = char(wild[i] ^ 0xff);
    image_from_bytes(wild);  // must not crash or take much memory
  }
}

TEST_F(CacheTest, StoresAndFinds) {
  ImageCache a = cache();
  std::string key = content_key({"a"});
  EXPECT_FALSE(a.find(key));
  a.store(key, sample());
  ASSERT_TRUE(a.find(key));
  EXPECT_EQ(*a.find(key), sample());
  EXPECT_EQ(*cache().find(key), sample());
  EXPECT_FALSE(a.find(content_key({"b"})));
  a.store(key, sample("other"));
  EXPECT_EQ(*a.find(key), sample("other"));
  EXPECT_EQ(files(), std::vector{key + ".image"});
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, PacksWhatShrinks) {
  KernelImage image = sample("text", 0);
  image.ptx = std::string(100000, 'p');
  cache().store(content_key({"a"}), image);
  EXPECT_LT(fs::file_size(entry(content_key({"a"}))), 1000u);
  EXPECT_EQ(*cache().find(content_key({"a"})), image);
}

TEST_F(CacheTest, Links) {
  ImageCache c = cache();
  std::string key = content_key({"content"}), first = content_key({"source"});
  c.store(key, sample());
  c.link(first, key);
  EXPECT_EQ(*c.find(first), sample());
  EXPECT_EQ(c.stats().images, 1);
  EXPECT_EQ(c.stats().links, 1);
  EXPECT_LT(fs::file_size(entry(first, ".link")), 200u);
  // A link to an image that was removed to make room finds nothing, and says nothing.
  fs::remove(entry(key));
  EXPECT_FALSE(c.find(first));
  EXPECT_TRUE(warnings_.empty());
  c.store(key, sample("again"));
  EXPECT_EQ(c.find(first)->kernel, "again");
  // A link takes the place of an image.
  c.store(first, sample("own"));
  c.link(first, key);
  EXPECT_EQ(c.find(first)->kernel, "again");
}

TEST_F(CacheTest, TakesInOtherFolders) {
  ImageCache other = cache_at(root_ / "other"), mine = cache();
  for (const char* key : {"aa", "bb", "cc"}) other.store(key, sample(key));
  other.link("dd", "aa");
  mine.store("bb", sample("mine"));
  fs::resize_file(root_ / "other" / "cc.image", 100);
  write(root_ / "other" / "notes.txt", "mine");
  EXPECT_EQ(mine.merge(root_ / "other"), 2);
  EXPECT_EQ(warnings_, std::vector<std::string>{"cached image " + (root_ / "other" / "cc.image").string() +
                                                " is damaged (it is truncated); it is left out"});
  EXPECT_EQ(mine.find("dd")->kernel, "aa");
  EXPECT_EQ(mine.find("bb")->kernel, "mine");
  EXPECT_FALSE(mine.find("cc"));
  EXPECT_TRUE(fs::exists(root_ / "other" / "cc.image"));
  EXPECT_EQ(mine.merge(root_ / "other"), 0);
  try {
    mine.merge(root_ / "none");
    FAIL();
  } catch (const FileError& e) {
    EXPECT_EQ(std::string(e.what()), "'" + (root_ / "none").string() + "' is no folder");
  }
}

TEST_F(CacheTest, EveryDamagedByteIsNoticed) {
  ImageCache c = cache();
  std::string key = content_key({"a"});
  c.store(key, sample("k", 300));
  const std::string good = read(entry(key));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 0x10);
    write(entry(key), bad);
    warnings_.clear();
    EXPECT_FALSE(c.find(key)) << "byte " << i;
    ASSERT_EQ(warnings_.size(), 1u) << "byte " << i;
    EXPECT_FALSE(fs::exists(entry(key))) << "byte " << i;
  }
  c.store(key, sample());
  EXPECT_EQ(*c.find(key), sample());
}

TEST_F(CacheTest, DamageIsExplained) {
  ImageCache c = cache();
  std::string key = content_key({"a"});
  c.store(key, sample());
  const std::string good = read(entry(key));
  auto warning_for = [&](const std::string& bytes) {
    write(entry(key), bytes);
    warnings_.clear();
    EXPECT_FALSE(c.find(key));
    return warnings_.empty() ? "(none)" : warnings_[0];
  };
  auto expected = [&](const std::string& why) {
    return "cached image " + entry(key).string() + " is damaged (" + why + "); it was removed and is compiled again";
  };
  EXPECT_EQ(warning_for(""), expected("it is truncated"));
  EXPECT_EQ(warning_for(good.substr(0, 30)), expected("it is truncated"));
  EXPECT_EQ(warning_for(good.substr(0, 60)), expected("it is truncated"));
  EXPECT_EQ(warning_for(good.substr(0, good.size() - 1)), expected("it is truncated"));
  EXPECT_EQ(warning_for(good + "x"), expected("bytes follow its end"));
  EXPECT_EQ(warning_for(std::string(500, 'z')), expected("it is not a Tegula image"));
  std::string bad = good;
  bad[8] = 99;
  EXPECT_EQ(warning_for(bad), expected("it has another format version"));
  bad = good;
  bad.back() = char(bad.back() + 1);
  EXPECT_EQ(warning_for(bad), expected("its digest does not match"));
  // A good entry under a foreign name.
  c.store(content_key({"b"}), sample());
  EXPECT_EQ(warning_for(read(entry(content_key({"b"})))), expected("it belongs to another key"));
  EXPECT_TRUE(c.find(content_key({"b"})));
}

TEST_F(CacheTest, LayersAreReadAndLeftAsTheyAre) {
  const std::string a = content_key({"a"}), b = content_key({"b"}), link = content_key({"link"});
  ImageCache below = cache_at(root_ / "below");
  below.store(a, sample("below"));
  below.store(b, sample());
  below.link(link, a);
  write(root_ / "below" / (b + ".image"), "damaged");
  ImageCache c({folder_,
                1 << 20,
                [this](const std::string& text) { warnings_.push_back(text); },
                {root_ / "none", root_ / "below"}});
  EXPECT_EQ(c.find(a)->kernel, "below");
  EXPECT_EQ(c.find(link)->kernel, "below");
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_FALSE(c.find(b));
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"cached image " + (root_ / "below" / (b + ".image")).string() +
                                     " is damaged (it is truncated); it is left alone and is compiled again"});
  c.store(a, sample("above"));
  EXPECT_EQ(c.find(a)->kernel, "above");
  EXPECT_EQ(below.find(a)->kernel, "below");
}

// An image is looked for under a key of its source and then under its own: one file.
TEST_F(CacheTest, WhatIsWrongWithAFileIsToldOnce) {
  const std::string a = content_key({"a"}), source = content_key({"source"}), code = content_key({"code"});
  const fs::path below = root_ / "below";
  {
    ImageCache c = cache_at(below);
    c.store(a, sample());
    c.link(source, a);
    c.store_code(code, "instructions");
  }
  ImageCache c({folder_, 1 << 20, [this](const std::string& text) { warnings_.push_back(text); }, {below}});
  const std::string image = (below / (a + ".image")).string(), codes = (below / (code + ".code")).string();
  for (const std::string& file : {image, codes}) fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(c.find(source));
    EXPECT_FALSE(c.find(a));
    EXPECT_FALSE(c.find_code(code));
  }
  const std::string end = " is not used: everybody may write to it (mode 646)\n  hint: chmod go-w ";
  EXPECT_EQ(warnings_,
            (std::vector<std::string>{"cached image " + image + end + image, "cached code " + codes + end + codes}));
  warnings_.clear();
  for (const std::string& file : {image, codes}) {
    fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
    write(file, "damaged");
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(c.find(source));
    EXPECT_FALSE(c.find_code(code));
  }
  const std::string why = " is damaged (it is truncated); it is left alone and is compiled again";
  EXPECT_EQ(warnings_, (std::vector<std::string>{"cached image " + image + why, "cached code " + codes + why}));
}

TEST_F(CacheTest, UsesAreNotedWhereTheyAreFarApart) {
  const std::string a = content_key({"a"});
  ImageCache c = cache();
  c.store(a, sample());
  const auto now = fs::last_write_time(entry(a));
  fs::last_write_time(entry(a), now - std::chrono::seconds(30));
  EXPECT_TRUE(c.find(a));
  EXPECT_EQ(fs::last_write_time(entry(a)), now - std::chrono::seconds(30));
  fs::last_write_time(entry(a), now - std::chrono::hours(1));
  EXPECT_TRUE(c.find(a));
  EXPECT_GE(fs::last_write_time(entry(a)), now);
}

TEST_F(CacheTest, FolderThatCannotBeMade) {
  write(root_ / "file", "");
  ImageCache c = cache_at(root_ / "file" / "cache");
  c.store(content_key({"a"}), sample());
  c.store(content_key({"b"}), sample());
  c.link(content_key({"c"}), content_key({"a"}));
  EXPECT_FALSE(c.find(content_key({"a"})));
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiled kernels are not kept on disk: folder " +
                                                (root_ / "file" / "cache").string() +
                                                " cannot be made (Not a directory)\n  hint: TEGULA_CACHE_DIR names "
                                                "another folder, TEGULA_CACHE_SIZE=0 keeps none"});
  EXPECT_EQ(c.stats().images, 0);
  c.clear();
}

TEST_F(CacheTest, FolderThatCannotBeWrittenTo) {
  ImageCache c = cache_at("/sys/kernel");  // where not even root makes files
  c.store(content_key({"a"}), sample());
  c.store(content_key({"b"}), sample());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(
      warnings_[0].starts_with("compiled kernels are not kept on disk: folder /sys/kernel cannot be written to ("))
      << warnings_[0];
  EXPECT_FALSE(c.find(content_key({"a"})));
}

// A disk that is full in the middle of a file: a limit on file size stands for it.
TEST_F(CacheTest, FullDisk) {
  cache().store(content_key({"before"}), sample("before", 100));
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{2000, 2000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<std::string> warnings;
    ImageCache c({folder_, 1 << 20, [&](const std::string& text) { warnings.push_back(text); }});
    c.store(content_key({"a"}), sample());
    c.store(content_key({"b"}), sample());
    bool good =
        warnings == std::vector<std::string>{"compiled kernels are not kept on disk: folder " + folder_.string() +
                                             " cannot be written to (File too large)\n  hint: TEGULA_CACHE_DIR names "
                                             "another folder, TEGULA_CACHE_SIZE=0 keeps none"} &&
        !c.find(content_key({"a"})) && c.find(content_key({"before"}));
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), std::vector{content_key({"before"}) + ".image"});  // no partial file
}

TEST_F(CacheTest, OldestUsedGoFirst) {
  std::vector<std::string> keys;
  {
    ImageCache c = cache();
    for (int i = 0; i < 10; ++i) {
      keys.push_back(content_key({std::to_string(i)}));
      c.store(keys[i], sample("k" + std::to_string(i), 10000));
      fs::last_write_time(entry(keys[i]), fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
    }
    EXPECT_EQ(c.stats().images, 10);
  }
  int64_t each = int64_t(fs::file_size(entry(keys[0])));
  ImageCache c = cache(each * 10 + 500);
  EXPECT_TRUE(c.find(keys[0]));  // used just now
  std::string last = content_key({"last"});
  c.store(last, sample("kx", 10000));
  EXPECT_LE(c.stats().bytes, each * 10 + 500);
  EXPECT_TRUE(c.find(keys[0]));
  EXPECT_FALSE(c.find(keys[1]));
  EXPECT_FALSE(c.find(keys[2]));  // one more than needed: a tenth is freed
  EXPECT_TRUE(c.find(keys[3]));
  EXPECT_TRUE(c.find(last));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CacheTest, StaysBoundedOverManyStores) {
  ImageCache c = cache(100000);
  for (int i = 0; i < 100; ++i) {
    c.store(content_key({std::to_string(i)}), sample("k", 9000));
    EXPECT_LE(c.stats().bytes, 100000);
  }
  EXPECT_GE(c.stats().images, 8);
  c.store(content_key({"huge"}), sample("k", 200000));  // never fits
  EXPECT_FALSE(c.find(content_key({"huge"})));
  EXPECT_GE(c.stats().images, 8);
}

TEST_F(CacheTest, ClearLeavesOtherFiles) {
  ImageCache c = cache();
  c.store(content_key({"a"}), sample());
  c.link(content_key({"b"}), content_key({"a"}));
  write(folder_ / "mine.txt", "mine");
  c.clear();
  EXPECT_EQ(c.stats().images + c.stats().links, 0);
  EXPECT_EQ(c.stats().bytes, 0);
  EXPECT_EQ(files(), std::vector<std::string>{"mine.txt"});
  c.store(content_key({"a"}), sample());
  EXPECT_TRUE(c.find(content_key({"a"})));
}

TEST_F(CacheTest, LeftOversOfKilledProcessesGo) {
  fs::create_directories(folder_);
  write(folder_ / ".tmp-old", "half an entry");
  fs::last_write_time(folder_ / ".tmp-old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  write(folder_ / ".tmp-new", "being written");
  cache().store(content_key({"a"}), sample());
  EXPECT_EQ(files(), (std::vector<std::string>{".tmp-new", content_key({"a"}) + ".image"}));
}

TEST_F(CacheTest, KeepsCodeBesideImages) {
  const std::string key = content_key({"a"});
  ImageCache c = cache();
  EXPECT_EQ(c.find_code(key), std::nullopt);
  c.store_code(key, "machine code");
  c.store(key, sample());
  EXPECT_EQ(c.find_code(key), "machine code");
  EXPECT_TRUE(c.find(key));
  EXPECT_EQ(c.stats().codes, 1);
  EXPECT_EQ(c.stats().images, 1);
  EXPECT_EQ(files(), (std::vector<std::string>{key + ".code", key + ".image"}));

  ImageCache other = cache_at(root_ / "other");
  EXPECT_EQ(other.merge(folder_), 2);
  EXPECT_EQ(other.find_code(key), "machine code");
  fs::resize_file(folder_ / (key + ".code"), 70);
  EXPECT_EQ(c.find_code(key), std::nullopt);
  EXPECT_EQ(warnings_.size(), 1u);
  c.clear();
  other.clear();
  EXPECT_EQ(other.stats().codes, 0);
}

// A folder of many files is not looked at in each process that stores something.
TEST_F(CacheTest, LooksAtTheFolderOnlyWhereTheTallyAsksForIt) {
  cache().store(content_key({"a"}), sample());
  auto looks = [&] {
    write(folder_ / ".tmp-old", "half an entry");
    fs::last_write_time(folder_ / ".tmp-old", fs::file_time_type::clock::now() - std::chrono::hours(2));
    cache().store(content_key({"b"}), sample());
    return !fs::exists(folder_ / ".tmp-old");
  };
  EXPECT_FALSE(looks());
  fs::resize_file(folder_ / ".tally", 5);
  EXPECT_TRUE(looks());
  EXPECT_FALSE(looks());
  write(folder_ / ".tally", std::string(16, '\xff'));
  EXPECT_TRUE(looks());
  write(folder_ / ".tally", std::string("\0\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0", 16));  // 1000 stores
  EXPECT_TRUE(looks());
  fs::remove(folder_ / ".tally");
  EXPECT_TRUE(looks());
}

TEST_F(CacheTest, ProcessesThatStoreOnceStayWithinTheBoundTogether) {
  for (int i = 0; i < 40; ++i) {
    ImageCache c = cache(100000);
    c.store(content_key({std::to_string(i)}), sample("k", 9000));
    EXPECT_LE(c.stats().bytes, 100000);
  }
}

TEST_F(CacheTest, Environment) {
  auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
  auto folder = [&] { return ImageCache({{}, -1, [this](const std::string& t) { warnings_.push_back(t); }}).folder(); };
  set("TEGULA_CACHE_DIR", "/a/b");
  set("XDG_CACHE_HOME", "/xdg");
  set("HOME", "/home/me");
  EXPECT_EQ(folder(), "/a/b");
  set("TEGULA_CACHE_DIR", nullptr);
  EXPECT_EQ(folder(), "/xdg/tegula");
  set("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(folder(), "/home/me/.cache/tegula");
  EXPECT_TRUE(warnings_.empty());
  set("HOME", nullptr);
  EXPECT_EQ(folder(), "");
  EXPECT_EQ(warnings_, std::vector<std::string>{"compiled kernels are not kept on disk: none of TEGULA_CACHE_DIR, "
                                                "XDG_CACHE_HOME and HOME is set"});
  warnings_.clear();
  set("TEGULA_CACHE_SIZE", "5000");
  EXPECT_EQ(cache(-1).max_bytes(), 5000);
  set("TEGULA_CACHE_SIZE", "5 GB");
  EXPECT_EQ(cache(-1).max_bytes(), 1 << 30);
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"TEGULA_CACHE_SIZE is '5 GB', expected a number of bytes; taking 1073741824"});
  set("TEGULA_CACHE_SIZE", nullptr);
}

// Eight processes store, link and find the same and different keys, in a folder so small that all of them evict.
// Whatever is found must be right, and nobody may see damage.
TEST_F(CacheTest, ManyProcesses) {
  constexpr int kProcesses = 8, kRounds = 50;
  for (int64_t max_bytes : {int64_t(1) << 30, int64_t(60000)}) {
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
      pid_t child = fork();
      if (child == 0) {
        int found = 0, wrong = 0, warned = 0;
        ImageCache c({folder_, max_bytes, [&](const std::string& text) {
                        ++warned;
                        std::fprintf(stderr, "%s\n", text.c_str());
                      }});
        for (int i = 0; i < kRounds; ++i) {
          for (int which : {i % 5, 100 + p * kRounds + i}) {
            std::string name = std::to_string(which), key = content_key({name}), alias = content_key({"alias", name});
            c.store(key, sample(name));
            c.link(alias, key);
            for (const std::string& k : {key, alias})
              if (auto image = c.find(k)) {
                ++found;
                wrong += *image != sample(name);
              }
          }
        }
        bool roomy = max_bytes == int64_t(1) << 30;  // then nothing is evicted
        _exit(wrong == 0 && warned == 0 && (roomy ? found == 4 * kRounds : found > 0) ? 0 : 1);
      }
      children.push_back(child);
    }
    for (pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    for (const std::string& name : files()) EXPECT_FALSE(name.starts_with(".tmp-")) << name;
  }
  ImageCache c = cache(60000);
  c.store(content_key({"end"}), sample());
  EXPECT_LE(c.stats().bytes, 60000);
}

TEST_F(CacheTest, ManyThreads) {
  ImageCache c = cache(60000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        std::string name = std::to_string((i + t) % 30);
        c.store(content_key({name}), sample(name));
        if (auto image = c.find(content_key({name}))) wrong += *image != sample(name);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(warnings_.empty());
}

}  // namespace
}  // namespace tegula
