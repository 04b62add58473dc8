// Uses OpenSSL's EVP interface, which runs on the CPU's SHA instructions if it has them.
#include "data/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>

namespace dtrain::data {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::Update(const void* bytes, size_t size) { EVP_DigestUpdate(context_->evp, bytes, size); }

void Sha256::UpdateText(std::string_view text) {
  UpdateInteger(static_cast<int64_t>(text.size()));
  Update(text.data(), text.size());
}

void Sha256::UpdateInteger(int64_t value) {
  std::array<uint8_t, 8> bytes{};
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  Update(bytes.data(), bytes.size());
}

std::string Sha256::Hex() {
  std::array<uint8_t, 32> digest{};
  EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr);
  std::string hex;
  for (const uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::string Sha256Of(std::string_view text) {
  Sha256 hash;
  hash.Update(text.data(), text.size());
  return hash.Hex();
}

}  // namespace dtrain::data
