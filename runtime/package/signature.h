// Ed25519 signatures of packages, by OpenSSL's libcrypto (3.0 or later), which is opened when a key is read: a program
// that uses no keys needs none.
//
//   openssl genpkey -algorithm ed25519 -out app.key && openssl pkey -in app.key -pubout -out app.pub
//   tegula build --from app.list --sign app.key -o app.tgp
//   Package::read("app.tgp", PublicKey::read("app.pub"));
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace tegula {

namespace detail {
struct KeyHandle;  // libcrypto's key, with where it was read from
}

/// What a signed file holds besides its contents.
struct Signature {
  std::array<uint8_t, 32> key = {};  ///< the public key that belongs to the signing one
  std::array<uint8_t, 64> bytes = {};
};

/// "ed25519:3f2a..." with the 64 digits of a public key.
std::string key_text(const std::array<uint8_t, 32>& key);

/// A key that verifies what the private key of the pair signed.
class PublicKey {
 public:
  /// Of a file in PEM form. Throws FileError: it cannot be read, holds no public Ed25519 key, libcrypto is not there.
  static PublicKey read(const std::filesystem::path& file);
  /// The same from text that a program holds; `name` stands for the file in messages.
  static PublicKey from_text(std::string_view pem, std::string_view name);

  /// "'app.pub' (ed25519:3f2a...)"
  std::string text() const;
  const std::array<uint8_t, 32>& bytes() const;
  /// Whether the signature is this key's, over exactly these bytes.
  bool verifies(std::string_view bytes, const Signature& signature) const;

 private:
  explicit PublicKey(std::shared_ptr<const detail::KeyHandle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<const detail::KeyHandle> handle_;
};

/// A key that signs.
class PrivateKey {
 public:
  /// As of PublicKey; a key that is protected by a password is not read.
  static PrivateKey read(const std::filesystem::path& file);
  static PrivateKey from_text(std::string_view pem, std::string_view name);

  std::string text() const;
  /// Throws FileError if libcrypto refuses.
  Signature sign(std::string_view bytes) const;

 private:
  explicit PrivateKey(std::shared_ptr<const detail::KeyHandle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<const detail::KeyHandle> handle_;
};

}  // namespace tegula
