#include "runtime/package/signature.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace tegula {

namespace {

// libcrypto's types, as far as pointers go.
struct Bio;
struct Key;
struct DigestContext;
using PasswordCallback = int (*)(char*, int, int, void*);

// The functions that are used, by their names; libcrypto.so.3 keeps them as they are.
struct Crypto {
  Bio* (*BIO_new_mem_buf)(const void* bytes, int size);
  int (*BIO_free)(Bio*);
  Key* (*PEM_read_bio_PrivateKey)(Bio*, Key**, PasswordCallback, void*);
  Key* (*PEM_read_bio_PUBKEY)(Bio*, Key**, PasswordCallback, void*);
  void (*EVP_PKEY_free)(Key*);
  int (*EVP_PKEY_is_a)(const Key*, const char* name);
  int (*EVP_PKEY_get_raw_public_key)(const Key*, uint8_t*, size_t*);
  DigestContext* (*EVP_MD_CTX_new)();
  void (*EVP_MD_CTX_free)(DigestContext*);
  int (*EVP_DigestSignInit)(DigestContext*, void**, const void* digest, void* engine, Key*);
  int (*EVP_DigestSign)(DigestContext*, uint8_t* signature, size_t* size, const uint8_t* bytes, size_t num_bytes);
  int (*EVP_DigestVerifyInit)(DigestContext*, void**, const void* digest, void* engine, Key*);
  int (*EVP_DigestVerify)(DigestContext*, const uint8_t* signature, size_t size, const uint8_t* bytes,
                          size_t num_bytes);
  void (*ERR_clear_error)();
};

Crypto open_crypto() {
  void* library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw FileError(
        fmt::format("keys need OpenSSL's libcrypto.so.3, which cannot be opened: {}\n  hint: install it (Debian: "
                    "libssl3)",
                    dlerror()));
  Crypto c;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) throw FileError(fmt::format("libcrypto.so.3 has no function {}", name));
  };
#define TEGULA_FIND(name) find(c.name, #name)
  TEGULA_FIND(BIO_new_mem_buf);
  TEGULA_FIND(BIO_free);
  TEGULA_FIND(PEM_read_bio_PrivateKey);
  TEGULA_FIND(PEM_read_bio_PUBKEY);
  TEGULA_FIND(EVP_PKEY_free);
  TEGULA_FIND(EVP_PKEY_is_a);
  TEGULA_FIND(EVP_PKEY_get_raw_public_key);
  TEGULA_FIND(EVP_MD_CTX_new);
  TEGULA_FIND(EVP_MD_CTX_free);
  TEGULA_FIND(EVP_DigestSignInit);
  TEGULA_FIND(EVP_DigestSign);
  TEGULA_FIND(EVP_DigestVerifyInit);
  TEGULA_FIND(EVP_DigestVerify);
  TEGULA_FIND(ERR_clear_error);
#undef TEGULA_FIND
  return c;
}

// Throws FileError each time as long as it is not there.
const Crypto& crypto() {
  static const Crypto functions = open_crypto();
  return functions;
}

const uint8_t* data(std::string_view bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }

// Gives no password: OpenSSL would ask for one on the terminal.
int no_password(char*, int, int, void*) { return -1; }

using Context = std::unique_ptr<DigestContext, void (*)(DigestContext*)>;
Context new_context() { return {crypto().EVP_MD_CTX_new(), crypto().EVP_MD_CTX_free}; }

}  // namespace

namespace detail {

struct KeyHandle {
  Key* key = nullptr;
  std::string name;
  std::array<uint8_t, 32> bytes = {};  ///< the public key

  ~KeyHandle() {
    if (key) crypto().EVP_PKEY_free(key);
  }
};

}  // namespace detail

namespace {

using Handle = std::shared_ptr<const detail::KeyHandle>;

Handle parse_key(std::string_view pem, std::string_view name, bool is_private) {
  const Crypto& c = crypto();
  auto handle = std::make_shared<detail::KeyHandle>();
  handle->name = name;
  const std::unique_ptr<Bio, int (*)(Bio*)> bio(c.BIO_new_mem_buf(pem.data(), int(pem.size())), c.BIO_free);
  if (bio)
    handle->key = is_private ? c.PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr)
                             : c.PEM_read_bio_PUBKEY(bio.get(), nullptr, no_password, nullptr);
  size_t size = handle->bytes.size();
  const bool fits = handle->key && c.EVP_PKEY_is_a(handle->key, "ED25519") &&
                    c.EVP_PKEY_get_raw_public_key(handle->key, handle->bytes.data(), &size) == 1;
  c.ERR_clear_error();
  if (fits) return handle;
  throw FileError(fmt::format("'{}' holds no {} Ed25519 key in PEM form{}\n  hint: {}", name,
                              is_private ? "private" : "public",
                              pem.find("ENCRYPTED") == pem.npos ? "" : " without a password",
                              is_private ? "openssl genpkey -algorithm ed25519 -out app.key"
                                         : "openssl pkey -in app.key -pubout -out app.pub"));
}

std::string text_of(const detail::KeyHandle& handle) {
  return fmt::format("'{}' ({})", handle.name, key_text(handle.bytes));
}

}  // namespace

std::string key_text(const std::array<uint8_t, 32>& key) {
  std::string text = "ed25519:";
  for (uint8_t byte : key) text += fmt::format("{:02x}", byte);
  return text;
}

PublicKey PublicKey::read(const std::filesystem::path& file) { return from_text(read_file(file), file.string()); }
PublicKey PublicKey::from_text(std::string_view pem, std::string_view name) {
  return PublicKey(parse_key(pem, name, false));
}
std::string PublicKey::text() const { return text_of(*handle_); }
const std::array<uint8_t, 32>& PublicKey::bytes() const { return handle_->bytes; }

bool PublicKey::verifies(std::string_view bytes, const Signature& signature) const {
  const Crypto& c = crypto();
  const Context context = new_context();
  const bool good =
      context && c.EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, handle_->key) == 1 &&
      c.EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(), data(bytes), bytes.size()) == 1;
  c.ERR_clear_error();
  return good;
}

PrivateKey PrivateKey::read(const std::filesystem::path& file) { return from_text(read_file(file), file.string()); }
PrivateKey PrivateKey::from_text(std::string_view pem, std::string_view name) {
  return PrivateKey(parse_key(pem, name, true));
}
std::string PrivateKey::text() const { return text_of(*handle_); }

Signature PrivateKey::sign(std::string_view bytes) const {
  const Crypto& c = crypto();
  Signature signature{handle_->bytes, {}};
  size_t size = signature.bytes.size();
  const Context context = new_context();
  const bool good = context && c.EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, handle_->key) == 1 &&
                    c.EVP_DigestSign(context.get(), signature.bytes.data(), &size, data(bytes), bytes.size()) == 1 &&
                    size == signature.bytes.size();
  c.ERR_clear_error();
  if (!good) throw FileError(fmt::format("libcrypto does not sign with the key {}", text()));
  return signature;
}

}  // namespace tegula
