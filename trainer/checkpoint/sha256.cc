#include "trainer/checkpoint/sha256.h"

#include <openssl/evp.h>

#include <new>

namespace dtrain::checkpoint {

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new()) {
    if (digest == nullptr || EVP_DigestInit_ex(digest, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  ~Context() { EVP_MD_CTX_free(digest); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t bytes) { EVP_DigestUpdate(context_->digest, data, bytes); }

std::string Sha256::HexDigest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  EVP_DigestFinal_ex(context_->digest, digest, &bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < bytes; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

std::string Sha256Of(std::string_view text) {
  Sha256 sha256;
  sha256.Update(text.data(), text.size());
  return sha256.HexDigest();
}

}  // namespace dtrain::checkpoint
