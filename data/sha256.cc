// Uses OpenSSL's EVP interface, which runs on the CPU's SHA instructions if it has them.
#include "data/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <new>

namespace dtrain::data {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

Sha256& Sha256::Update(const void* bytes, size_t size) {
  EVP_DigestUpdate(context_.get(), bytes, size);
  return *this;
}

Sha256& Sha256::UpdateText(std::string_view text) {
  return UpdateInteger(static_cast<int64_t>(text.size())).Update(text.data(), text.size());
}

Sha256& Sha256::UpdateInteger(int64_t value) {
  std::array<uint8_t, 8> bytes{};
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  return Update(bytes.data(), bytes.size());
}

Sha256& Sha256::UpdateFile(const std::string& path, uint64_t bytes) {
  return UpdateText(std::filesystem::path(path).filename().string()).UpdateInteger(static_cast<int64_t>(bytes));
}

std::string Sha256::Hex() {
  std::array<uint8_t, 32> digest{};
  EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
  std::string hex;
  for (const uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string Sha256Of(std::string_view text) { return Sha256().Update(text.data(), text.size()).Hex(); }

}  // namespace dtrain::data
