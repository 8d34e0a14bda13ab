// Compiled kernel images on disk, found again by content, and code that the emulator has made of them.
//
// One file an entry, named by its key. A file is written under another name and renamed, so that a reader sees all of
// it or nothing; a digest over everything is checked on reading. Many processes, of several hosts too, may share a
// folder; locks guard the count of what it holds alone, and where the file system has none it is counted without.
// Nothing here ever throws for what is wrong with the folder: a cache that does not work is one warning, and compiling
// goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/kernel_image.h"

struct stat;  // of <sys/stat.h>

namespace tegula {

/// 32 hexadecimal digits: XXH3-128 over the parts and their lengths, so that {"ab", "c"} and {"a", "bc"} differ.
std::string content_key(std::initializer_list<std::string_view> parts);

class ImageCache {
 public:
  struct Options {
    /// Empty: $TEGULA_CACHE_DIR, else $XDG_CACHE_HOME/tegula, else ~/.cache/tegula. Made when first written to.
    std::filesystem::path folder = {};
    /// Bytes on disk to stay under; below 0: $TEGULA_CACHE_SIZE, else 1 GiB.
    int64_t max_bytes = -1;
    /// Told of damaged entries and of a folder that cannot be used. Null: the message handler.
    std::function<void(const std::string&)> warn = {};
    /// Folders below `folder`, which are only read: of an image, of a network file system. None: those of
    /// $TEGULA_CACHE_LAYERS, with ':' between them. Entries of other drivers and GPUs lie side by side.
    std::vector<std::filesystem::path> layers = {};
  };
  struct Stats {
    int64_t images = 0;
    int64_t links = 0;
    int64_t codes = 0;  ///< of the emulator's
    int64_t bytes = 0;  ///< of all files of the cache
  };

  ImageCache() : ImageCache(Options()) {}
  explicit ImageCache(Options options);
  /// The one with default options that the parts of a process share, so that each tells of the folder once.
  static std::shared_ptr<ImageCache> of_process();

  /// The image stored under `key` or under the key that it is linked to, in the folder or in the first layer that has
  /// it. A damaged entry is reported, removed from the folder, absent. So is, but for the removal, what others may
  /// write: a folder or file that everybody or a group other than the process's own may write to is never used. Keys
  /// are those that content_key makes.
  std::optional<KernelImage> find(std::string_view key);

  /// Stores `image` in place of what `key` had, then removes the entries that were not used for longest if the cache
  /// has grown past its size.
  void store(std::string_view key, const KernelImage& image);

  /// Held while what find(key) does not find is made. Another thread of the process that is to make the same waits for
  /// it, and finds it then.
  class Making {
   public:
    Making(ImageCache& cache, std::string_view key);
    ~Making();
    Making(const Making&) = delete;

   private:
    ImageCache& cache_;
    const std::string key_;
  };

  /// The same for bytes that are no image, and have keys of their own: code of the emulator's.
  std::optional<std::string> find_code(std::string_view key);
  void store_code(std::string_view key, std::string_view bytes);

  /// From now on find(alias) finds what find(key) finds; the image is kept once.
  void link(std::string_view alias, std::string_view key);

  /// Takes in the entries of another cache's folder that this one lacks, but for damaged ones and those that others
  /// may write to, which are reported. Returns how many. Throws FileError for a folder that is none.
  int64_t merge(const std::filesystem::path& folder);

  Stats stats() const;

  /// Removes every entry, whichever process stored it. Other files in the folder stay.
  void clear();

  /// Empty if no place for a cache is known.
  const std::filesystem::path& folder() const { return folder_; }
  int64_t max_bytes() const { return max_bytes_; }

 private:
  enum class Kind : uint32_t { Image = 1, Link = 2, Code = 3 };
  static std::string_view suffix_of(Kind kind);
  static Kind kind_of(const std::filesystem::path& file);

  std::optional<KernelImage> find_in(const std::filesystem::path& folder, std::string_view key);
  std::optional<std::string> read_entry(const std::filesystem::path& folder, std::string_view key, Kind kind);
  void warn_once(const std::string& text);
  bool is_unsafe(const char* what, const std::filesystem::path& path, const struct stat& info);
  bool is_unsafe_folder(const std::filesystem::path& folder);
  void refuse_unsafe_folders();
  void write_entry(std::string_view key, Kind kind, std::string_view payload);
  bool write_file(const std::filesystem::path& path, std::initializer_list<std::string_view> parts);
  void shrink();
  void report_damaged(const std::filesystem::path& path, std::string_view why);
  void give_up_writing(const std::string& why);

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> layers_;
  bool readable_ = true;  ///< the folder; set once
  std::once_flag looked_at_folders_;
  int64_t max_bytes_;
  std::function<void(const std::string&)> warn_;
  std::atomic<bool> writable_{true};
  std::mutex making_;
  std::condition_variable made_;                 ///< told when something has been made
  std::set<std::string, std::less<>> made_now_;  ///< keys; guarded by `making_`
  std::mutex telling_;
  std::set<std::string> told_;  ///< of files that stay as they are; guarded by `telling_`
};

}  // namespace tegula
