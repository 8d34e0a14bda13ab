// Who besides the user may write to the image cache: what of others is not used, and what it makes itself.
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/cache_fixture.h"

namespace tegula {
namespace {

TEST_F(CacheTest, WhatOthersMayWriteIsNotUsed) {
  const std::string a = content_key({"a"});
  cache().store(a, sample());
  fs::permissions(entry(a), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache().find(a));
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"cached image " + entry(a).string() +
                                     " is not used: everybody may write to it (mode 646)\n  hint: chmod go-w " +
                                     entry(a).string()});
  fs::permissions(entry(a), fs::perms::others_write, fs::perm_options::remove);
  EXPECT_TRUE(cache().find(a));
  warnings_.clear();
  fs::permissions(folder_, fs::perms::all);
  ImageCache c = cache();
  EXPECT_FALSE(c.find(a));
  c.store(content_key({"b"}), sample());
  EXPECT_FALSE(fs::exists(entry(content_key({"b"}))));
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"the cache folder " + folder_.string() +
                                     " is not used: everybody may write to it (mode 777)\n  hint: chmod go-w " +
                                     folder_.string()});
}

TEST_F(CacheTest, WhatItMakesNobodyElseMayWrite) {
  const std::string a = content_key({"a"});
  const fs::path folder = root_ / "above" / "below";
  const mode_t before = umask(0);
  cache_at(folder).store(a, sample());
  umask(before);
  EXPECT_TRUE(cache_at(folder).find(a));
  EXPECT_EQ(warnings_, std::vector<std::string>());
  for (const fs::path& made : {folder.parent_path(), folder, folder / (a + ".image")})
    EXPECT_EQ(fs::status(made).permissions() & fs::perms::others_write, fs::perms::none) << made;
}

// A team's folder hands its group on to all that is made in it, and the umask of its members lets the group write.
TEST_F(CacheTest, FolderOfATeam) {
  const fs::path team = root_ / "team";
  fs::create_directories(team);
  std::vector<gid_t> groups(size_t(getgroups(0, nullptr)));
  getgroups(int(groups.size()), groups.data());
  std::erase_if(groups, [](gid_t g) { return g == 0 || g == getegid(); });
  const bool root = geteuid() == 0;
  const gid_t group = root ? 54321 : groups.empty() ? 0 : groups[0];
  if (group == 0) GTEST_SKIP() << "this user is in no second group";
  ASSERT_EQ(chown(team.c_str(), uid_t(-1), group), 0);
  ASSERT_EQ(chmod(team.c_str(), 02775), 0);

  // Whether what a process stores there is found afterwards, and what it is told.
  auto found = [&](const fs::path& folder, std::vector<gid_t> member_of) {
    const std::string a = content_key({"a"});
    int pipes[2];
    EXPECT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      umask(002);
      const bool in_groups = !root || setgroups(member_of.size(), member_of.data()) == 0;
      warnings_.clear();
      cache_at(folder).store(a, sample());
      const bool good = in_groups && cache_at(folder).find(a);
      std::string text = good ? "found" : "not found";
      for (const std::string& warning : warnings_) text += "; " + warning;
      _exit(::write(pipes[1], text.data(), text.size()) < 0);
    }
    close(pipes[1]);
    std::string text(4096, '\0');
    text.resize(size_t(std::max<ssize_t>(0, ::read(pipes[0], text.data(), text.size()))));
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return text;
  };
  auto group_may_write = [](const fs::path& path) {
    return (fs::status(path).permissions() & fs::perms::group_write) != fs::perms::none;
  };
  const std::string image = content_key({"a"}) + ".image";

  // The group is one of the process's own: its members share the folder, the team's own and those made in it.
  EXPECT_EQ(found(team, {group}), "found");
  EXPECT_EQ(found(team / "own", {group}), "found");
  EXPECT_TRUE(group_may_write(team / "own"));
  EXPECT_TRUE(group_may_write(team / "own" / image));
  if (!root) return;  // who is in the group can do no more

  // It is not, as for root in a container: what it makes there the group may not write, or the next process would
  // refuse it.
  EXPECT_EQ(found(team / "by root", {}), "found");
  for (const fs::path& made : {team / "by root", team / "by root" / image, team / "by root" / ".lock"})
    EXPECT_FALSE(group_may_write(made)) << made;
  const std::string refused = "; the cache folder " + team.string() +
                              " is not used: another group may write to it (mode 2775)\n  hint: chmod go-w " +
                              team.string();
  EXPECT_EQ(found(team, {}), "not found" + refused + refused);  // by each of the two caches
}

TEST_F(CacheTest, DoesNotTakeInWhatOthersMayWrite) {
  const std::string a = content_key({"a"}), b = content_key({"b"});
  const fs::path folder = root_ / "other";
  cache_at(folder).store(a, sample());
  cache_at(folder).store(b, sample());
  fs::permissions(folder / (a + ".image"), fs::perms::others_write, fs::perm_options::add);
  ImageCache mine = cache();
  EXPECT_EQ(mine.merge(folder), 1);
  EXPECT_FALSE(mine.find(a));
  EXPECT_TRUE(mine.find(b));
  mine.clear();
  fs::permissions(folder, fs::perms::all);
  EXPECT_EQ(mine.merge(folder), 0);
  const std::string end = " is not used: everybody may write to it (mode ";
  const std::string file = (folder / (a + ".image")).string();
  EXPECT_EQ(warnings_, (std::vector<std::string>{"cached image " + file + end + "646)\n  hint: chmod go-w " + file,
                                                 "the cache folder " + folder.string() + end +
                                                     "777)\n  hint: chmod go-w " + folder.string()}));
}

}  // namespace
}  // namespace tegula
