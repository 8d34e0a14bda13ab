#include "runtime/store/image_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/messages.h"
#include "runtime/base/processors.h"
#include "runtime/image_format.h"

namespace tegula {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kDefaultMaxBytes = int64_t(1) << 30;
constexpr uint64_t kMaxEntryBytes = uint64_t(1) << 30;  // of one image, unpacked
constexpr int kStoresBetweenLooks = 1000;
constexpr auto kTemporaryLife = std::chrono::hours(1);
constexpr time_t kUseSeconds = 60;  // uses of an entry less apart are not noted
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr int kLevel = -1;  // of zstd: the emulator's entries grow by 8 % over level 1, PTX by 25 %, in 2/3 of the time
constexpr char kMagic[8] = {'T', 'e', 'g', 'u', 'l', 'a', '\r', '\n'};

// A zstd frame; empty if there is none. Its tables take longer to make than a small payload to pack, so that a thread
// keeps them.
std::string pack(std::string_view payload) {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(ZSTD_createCCtx());
  const size_t bound = ZSTD_compressBound(payload.size());
  const std::unique_ptr<char[]> packed(new char[bound]);
  const size_t bytes =
      context ? ZSTD_compressCCtx(context.get(), packed.get(), bound, payload.data(), payload.size(), kLevel) : 0;
  return ZSTD_isError(bytes) ? std::string() : std::string(packed.get(), bytes);
}

// An entry file: this, the key, the stored payload.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t kind;
  uint32_t packed;  // 1: the payload is a zstd frame
  uint32_t key_bytes;
  uint64_t stored_bytes;   // of the payload in the file
  uint64_t payload_bytes;  // unpacked
  uint8_t digest[16];      // XXH3-128 of all of the file but this field
};
static_assert(sizeof(Header) == 56);

std::string_view bytes_of(const Header& header) { return {reinterpret_cast<const char*>(&header), sizeof(Header)}; }

class Digest {
 public:
  Digest() { XXH3_128bits_reset(&state_); }
  void add(std::string_view bytes) { XXH3_128bits_update(&state_, bytes.data(), bytes.size()); }
  XXH128_canonical_t value() const {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(&state_));
    return bytes;
  }

 private:
  XXH3_state_t state_;
};

XXH128_canonical_t entry_digest(const Header& header, std::string_view key_and_payload) {
  Digest digest;
  digest.add(bytes_of(header).substr(0, offsetof(Header, digest)));
  digest.add(key_and_payload);
  return digest.value();
}

constexpr const char* kAnotherFolder =
    "\n  hint: TEGULA_CACHE_DIR names another folder, TEGULA_CACHE_SIZE=0 keeps none";

class File {
 public:
  File(const fs::path& path, int flags)
      : fd_(flags & O_CREAT ? open_or_make(path, flags) : open(path.c_str(), flags | O_CLOEXEC)) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(size_t(n));
    }
    return true;
  }

  std::optional<std::string> read_all() {
    struct stat info;
    if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    std::string bytes(size_t(info.st_size), '\0');
    size_t have = 0;
    while (have < bytes.size()) {
      ssize_t n = ::read(fd_, bytes.data() + have, bytes.size() - have);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return std::nullopt;
      if (n == 0) break;
      have += size_t(n);
    }
    bytes.resize(have);
    return bytes;
  }

 private:
  int fd_;
};

// Empty if the environment names no place.
fs::path default_folder() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (fs::path p = variable("TEGULA_CACHE_DIR"); !p.empty()) return p;
  if (fs::path p = variable("XDG_CACHE_HOME"); !p.empty()) return p / "tegula";
  if (fs::path p = variable("HOME"); !p.empty()) return p / ".cache" / "tegula";
  return {};
}

std::vector<fs::path> default_layers() {
  std::vector<fs::path> layers;
  const char* text = std::getenv("TEGULA_CACHE_LAYERS");
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) layers.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return layers;
}

// Of no other process, a forked one included, and of no other host. To make a random_device for each name takes as long
// as to write a small file: it asks the processor what it is, which a virtual machine answers slowly.
std::string temporary_name() {
  static const uint32_t drawn = std::random_device()();
  static std::atomic<uint32_t> number = 0;
  return fmt::format("{}{:08x}-{:x}-{:x}", kTemporaryPrefix, drawn, getpid(), number++);
}

// One file of the cache.
struct Entry {
  fs::path path;
  int64_t bytes;
  fs::file_time_type last_used;
};

constexpr std::string_view kImageSuffix = ".image", kLinkSuffix = ".link", kCodeSuffix = ".code";

fs::path entry_path(const fs::path& folder, std::string_view key, std::string_view suffix) {
  TEGULA_CHECK(!key.empty() && key.find_first_not_of("0123456789abcdef") == key.npos, "cache key '{}'", key);
  return folder / fmt::format("{}{}", key, suffix);
}

template <class Wanted>
std::vector<Entry> list(const fs::path& folder, Wanted wanted) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string_view name = it->path().native();
    name.remove_prefix(name.rfind('/') + 1);
    if (!wanted(name)) continue;
    std::error_code gone;  // another process may remove a file at any moment
    Entry entry{it->path(), int64_t(it->file_size(gone)), {}};
    if (!gone) entry.last_used = it->last_write_time(gone);
    if (!gone) entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<Entry> list_all(const fs::path& folder) {
  return list(folder, [](std::string_view name) {
    return name.ends_with(kImageSuffix) || name.ends_with(kLinkSuffix) || name.ends_with(kCodeSuffix);
  });
}
std::vector<Entry> list_temporary(const fs::path& folder) {
  return list(folder, [](std::string_view name) { return name.starts_with(kTemporaryPrefix); });
}

// Whether the file may be changed as if by the lock's holder: not where another process holds it. Some network file
// systems have no locks; there all may, at once.
bool lock(const File& file, int operation) {
  int failed = 0;
  do failed = flock(file.fd(), operation);
  while (failed && errno == EINTR);
  return !failed || errno != EWOULDBLOCK;
}

// What a folder holds, as those who stored there have counted since somebody looked: a look at all of its files takes
// a second where there are many. Too much is counted where an entry is replaced, too little where a process is killed
// or two count at once.
struct Tally {
  int64_t bytes, stores;
};
constexpr const char* kTallyName = ".tally";

// Counts one store. Nothing if there is no tally, or none that can be believed.
std::optional<Tally> add_to_tally(const fs::path& folder, int64_t bytes) {
  File file(folder / kTallyName, O_RDWR);
  Tally tally;
  if (!file || !lock(file, LOCK_EX) || pread(file.fd(), &tally, sizeof(tally), 0) != sizeof(tally)) return std::nullopt;
  if (tally.bytes < 0 || tally.bytes > INT64_MAX - bytes || tally.stores < 0 || tally.stores == INT64_MAX)
    return std::nullopt;
  tally.bytes += bytes, ++tally.stores;
  if (pwrite(file.fd(), &tally, sizeof(tally), 0) != sizeof(tally)) return std::nullopt;
  return tally;
}

void write_tally(const fs::path& folder, const Tally& tally) {
  File file(folder / kTallyName, O_RDWR | O_CREAT);
  if (file && lock(file, LOCK_EX) && pwrite(file.fd(), &tally, sizeof(tally), 0) != sizeof(tally)) {
    std::error_code ignored;
    fs::remove(folder / kTallyName, ignored);
  }
}

// The payload of an entry's file; or why the file is not that entry.
struct Parsed {
  std::string payload;
  const char* damage = nullptr;
};

Parsed parse(std::string_view file, std::string_view key, uint32_t kind) {
  Header header;
  if (file.size() < sizeof(Header)) return {{}, "it is truncated"};
  std::memcpy(&header, file.data(), sizeof(Header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return {{}, "it is not a Tegula image"};
  if (header.version != kImageFormatVersion) return {{}, "it has another format version"};
  std::string_view rest = file.substr(sizeof(Header));
  if (header.key_bytes > rest.size() || header.stored_bytes > rest.size() - header.key_bytes)
    return {{}, "it is truncated"};
  if (header.stored_bytes < rest.size() - header.key_bytes) return {{}, "bytes follow its end"};
  XXH128_canonical_t digest = entry_digest(header, rest);
  if (std::memcmp(digest.digest, header.digest, sizeof(header.digest)) != 0) return {{}, "its digest does not match"};
  if (rest.substr(0, header.key_bytes) != key || header.kind != kind) return {{}, "it belongs to another key"};
  std::string_view stored = rest.substr(header.key_bytes);
  if (!header.packed) return {std::string(stored)};
  Parsed parsed;
  if (header.payload_bytes <= kMaxEntryBytes) {
    parsed.payload.resize(header.payload_bytes);
    size_t n = ZSTD_decompress(parsed.payload.data(), parsed.payload.size(), stored.data(), stored.size());
    if (!ZSTD_isError(n) && n == header.payload_bytes) return parsed;
  }
  return {{}, "it cannot be unpacked"};
}

}  // namespace

std::string content_key(std::initializer_list<std::string_view> parts) {
  Digest digest;
  for (std::string_view part : parts) {
    uint64_t size = part.size();
    digest.add({reinterpret_cast<const char*>(&size), sizeof(size)});
    digest.add(part);
  }
  std::string key;
  for (uint8_t byte : digest.value().digest) key += fmt::format("{:02x}", byte);
  return key;
}

ImageCache::ImageCache(Options options)
    : folder_(options.folder.empty() ? default_folder() : std::move(options.folder)),
      layers_(options.layers.empty() ? default_layers() : std::move(options.layers)),
      max_bytes_(options.max_bytes),
      warn_(std::move(options.warn)) {
  if (!warn_) warn_ = [](const std::string& text) { tell(MessageKind::Warning, text); };
  if (max_bytes_ < 0) {
    max_bytes_ = kDefaultMaxBytes;
    if (const char* text = std::getenv("TEGULA_CACHE_SIZE"); text && *text) {
      const char* end = text + std::strlen(text);
      int64_t value = 0;
      auto [stop, error] = std::from_chars(text, end, value);
      if (error == std::errc() && stop == end && value >= 0)
        max_bytes_ = value;
      else
        warn_(fmt::format("TEGULA_CACHE_SIZE is '{}', expected a number of bytes; taking {}", text, max_bytes_));
    }
  }
  if (folder_.empty()) give_up_writing("none of TEGULA_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  if (max_bytes_ == 0) writable_ = false;
}

std::shared_ptr<ImageCache> ImageCache::of_process() {
  static const auto cache = std::make_shared<ImageCache>();
  return cache;
}

// An image is looked for under several keys, so its file may be met several times.
void ImageCache::warn_once(const std::string& text) {
  {
    std::lock_guard lock(telling_);
    if (!told_.insert(text).second) return;
  }
  warn_(text);
}

// Whether others may write to what has this state; then it is said.
bool ImageCache::is_unsafe(const char* what, const fs::path& path, const struct stat& info) {
  const char* writers = other_writers(info);
  if (writers)
    warn_once(fmt::format("{0} {1} is not used: {2} may write to it (mode {3:o})\n  hint: chmod go-w {1}", what,
                          path.string(), writers, info.st_mode & 07777));
  return writers != nullptr;
}

bool ImageCache::is_unsafe_folder(const fs::path& folder) {
  struct stat info;
  return !folder.empty() && ::stat(folder.c_str(), &info) == 0 && is_unsafe("the cache folder", folder, info);
}

// Once, before anything is read or written.
void ImageCache::refuse_unsafe_folders() {
  std::call_once(looked_at_folders_, [&] {
    if (is_unsafe_folder(folder_)) readable_ = writable_ = false;
    std::erase_if(layers_, [&](const fs::path& layer) { return is_unsafe_folder(layer); });
  });
}

std::optional<KernelImage> ImageCache::find(std::string_view key) {
  refuse_unsafe_folders();
  if (!folder_.empty() && readable_)
    if (auto image = find_in(folder_, key)) return image;
  for (const fs::path& layer : layers_)
    if (auto image = find_in(layer, key)) return image;
  return std::nullopt;
}

std::optional<KernelImage> ImageCache::find_in(const fs::path& folder, std::string_view key) {
  std::string stored_under(key);
  auto payload = read_entry(folder, key, Kind::Image);
  if (!payload) {
    auto target = read_entry(folder, key, Kind::Link);
    if (!target) return std::nullopt;
    stored_under = *target;
    payload = read_entry(folder, stored_under, Kind::Image);  // absent if it was removed to make room
    if (!payload) return std::nullopt;
  }
  auto image = image_from_bytes(*payload);
  if (!image) report_damaged(entry_path(folder, stored_under, kImageSuffix), "it holds no image");
  return image;
}

std::optional<std::string> ImageCache::find_code(std::string_view key) {
  refuse_unsafe_folders();
  if (!folder_.empty() && readable_)
    if (auto code = read_entry(folder_, key, Kind::Code)) return code;
  for (const fs::path& layer : layers_)
    if (auto code = read_entry(layer, key, Kind::Code)) return code;
  return std::nullopt;
}

void ImageCache::store_code(std::string_view key, std::string_view bytes) {
  refuse_unsafe_folders();
  if (writable_) write_entry(key, Kind::Code, bytes);
}

ImageCache::Making::Making(ImageCache& cache, std::string_view key) : cache_(cache), key_(key) {
  std::unique_lock lock(cache_.making_);
  const auto begin = [&] { return cache_.made_now_.insert(key_).second; };
  if (begin()) return;
  lock.unlock();
  ProcessorBreak other_makes_it;
  lock.lock();
  cache_.made_.wait(lock, begin);
  lock.unlock();  // ahead of the processor
}

ImageCache::Making::~Making() {
  {
    std::lock_guard lock(cache_.making_);
    cache_.made_now_.erase(key_);
  }
  cache_.made_.notify_all();
}

void ImageCache::store(std::string_view key, const KernelImage& image) {
  refuse_unsafe_folders();
  if (!writable_) return;
  write_entry(key, Kind::Image, to_bytes(image));
}

void ImageCache::link(std::string_view alias, std::string_view key) {
  refuse_unsafe_folders();
  if (!writable_ || alias == key) return;
  entry_path(folder_, key, kImageSuffix);  // checks the key
  std::error_code ignored;
  fs::remove(entry_path(folder_, alias, kImageSuffix), ignored);
  write_entry(alias, Kind::Link, key);
}

std::string_view ImageCache::suffix_of(Kind kind) {
  return kind == Kind::Image ? kImageSuffix : kind == Kind::Link ? kLinkSuffix : kCodeSuffix;
}

ImageCache::Kind ImageCache::kind_of(const fs::path& file) {
  for (Kind kind : {Kind::Link, Kind::Code})
    if (file.extension() == suffix_of(kind)) return kind;
  return Kind::Image;
}

std::optional<std::string> ImageCache::read_entry(const fs::path& folder, std::string_view key, Kind kind) {
  const fs::path path = entry_path(folder, key, suffix_of(kind));
  File file(path, O_RDONLY);
  if (!file) return std::nullopt;
  struct stat info;
  if (fstat(file.fd(), &info) != 0 || is_unsafe(kind == Kind::Code ? "cached code" : "cached image", path, info))
    return std::nullopt;
  auto bytes = file.read_all();
  if (!bytes) return std::nullopt;
  Parsed parsed = parse(*bytes, key, uint32_t(kind));
  if (parsed.damage) {
    report_damaged(path, parsed.damage);
    return std::nullopt;
  }
  // The time of the last use decides what goes first.
  if (folder == folder_ && std::abs(std::time(nullptr) - info.st_mtime) >= kUseSeconds) futimens(file.fd(), nullptr);
  return std::move(parsed.payload);
}

void ImageCache::report_damaged(const fs::path& path, std::string_view why) {
  std::error_code ignored;
  const bool removed = path.parent_path() == folder_ && fs::remove(path, ignored);
  const std::string text = fmt::format("cached {} {} is damaged ({}); it {} and is compiled again",
                                       kind_of(path) == Kind::Code ? "code" : "image", path.string(), why,
                                       removed ? "was removed" : "is left alone");
  removed ? warn_(text) : warn_once(text);
}

void ImageCache::give_up_writing(const std::string& why) {
  if (writable_.exchange(false)) warn_(fmt::format("compiled kernels are not kept on disk: {}", why));
}

// A file appears whole or not at all. False where it could not be written.
bool ImageCache::write_file(const fs::path& path, std::initializer_list<std::string_view> parts) {
  if (const std::error_code error = make_folders(folder_)) {
    give_up_writing(fmt::format("folder {} cannot be made ({}){}", folder_.string(), error.message(), kAnotherFolder));
    return false;
  }
  fs::path temporary = folder_ / temporary_name();
  auto write = [&] {
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    return file && std::ranges::all_of(parts, [&](std::string_view part) { return file.write(part); }) && file.close();
  };
  if (write() && rename(temporary.c_str(), path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;  // the folder was cleared at this moment; the next store makes it again
  std::string why = std::strerror(errno);
  unlink(temporary.c_str());
  give_up_writing(fmt::format("folder {} cannot be written to ({}){}", folder_.string(), why, kAnotherFolder));
  return false;
}

int64_t ImageCache::merge(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw FileError(fmt::format("'{}' is no folder", folder.string()));
  refuse_unsafe_folders();
  int64_t taken = 0;
  if (!writable_ || is_unsafe_folder(folder)) return taken;
  for (const Entry& entry : list_all(folder)) {
    const std::string key = entry.path.stem();
    const Kind kind = kind_of(entry.path);
    if (key.empty() || key.find_first_not_of("0123456789abcdef") != key.npos ||
        fs::exists(entry_path(folder_, key, suffix_of(kind))))
      continue;
    File file(entry.path, O_RDONLY);
    struct stat info;
    if (!file || fstat(file.fd(), &info) != 0 || is_unsafe("cached image", entry.path, info)) continue;
    const auto bytes = file.read_all();
    if (!bytes) continue;
    if (const char* damage = parse(*bytes, key, uint32_t(kind)).damage)
      warn_(fmt::format("cached image {} is damaged ({}); it is left out", entry.path.string(), damage));
    else if (write_file(entry_path(folder_, key, suffix_of(kind)), {*bytes}))
      ++taken;
  }
  shrink();
  return taken;
}

void ImageCache::write_entry(std::string_view key, Kind kind, std::string_view payload) {
  const std::string packed = pack(payload);
  const bool pays = !packed.empty() && packed.size() < payload.size() / 10 * 9;

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kImageFormatVersion;
  header.kind = uint32_t(kind);
  header.packed = pays;
  header.key_bytes = uint32_t(key.size());
  header.stored_bytes = pays ? packed.size() : payload.size();
  header.payload_bytes = payload.size();
  std::string body(key);
  body += pays ? packed : payload;
  XXH128_canonical_t digest = entry_digest(header, body);
  std::memcpy(header.digest, digest.digest, sizeof(header.digest));
  int64_t bytes = int64_t(sizeof(Header) + body.size());
  if (bytes > max_bytes_) return;

  if (!write_file(entry_path(folder_, key, suffix_of(kind)), {bytes_of(header), body})) return;

  const auto tally = add_to_tally(folder_, bytes);
  if (!tally || tally->bytes > max_bytes_ || tally->stores > kStoresBetweenLooks) shrink();
}

// Counts the folder's files and removes those not used for longest until nine tenths of the bound are left, so that not
// every store has to. One process at a time; who finds another at it leaves it to that one.
void ImageCache::shrink() {
  File at_work(folder_ / ".lock", O_RDWR | O_CREAT);
  if (!at_work || !lock(at_work, LOCK_EX | LOCK_NB)) return;
  std::error_code ignored;
  // What processes left that were killed in the middle of a store.
  for (const Entry& entry : list_temporary(folder_))
    if (fs::file_time_type::clock::now() - entry.last_used > kTemporaryLife) fs::remove(entry.path, ignored);

  std::vector<Entry> entries = list_all(folder_);
  int64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  if (bytes > max_bytes_) {
    std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.last_used, e.path); });
    for (const Entry& entry : entries) {
      if (bytes <= max_bytes_ / 10 * 9) break;
      fs::remove(entry.path, ignored);
      bytes -= entry.bytes;
    }
  }
  write_tally(folder_, {bytes, 0});
}

ImageCache::Stats ImageCache::stats() const {
  Stats stats;
  for (const Entry& entry : list_all(folder_)) {
    const Kind kind = kind_of(entry.path);
    ++(kind == Kind::Image ? stats.images : kind == Kind::Link ? stats.links : stats.codes);
    stats.bytes += entry.bytes;
  }
  return stats;
}

void ImageCache::clear() {
  std::error_code ignored;
  for (const Entry& entry : list_all(folder_)) fs::remove(entry.path, ignored);
  for (const Entry& entry : list_temporary(folder_)) fs::remove(entry.path, ignored);
  fs::remove(folder_ / kTallyName, ignored);
}

}  // namespace tegula
