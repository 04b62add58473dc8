#include "trainer/launch/run_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "trainer/errors.h"

namespace dtrain::launch {
namespace {

std::string Hex(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace

std::string GivenToken(const config::RanksConfig& ranks, const Environment& environment) {
  return ranks.run_token.empty() ? ValueOf(environment, kTokenVariable) : ranks.run_token;
}

std::string RandomToken() {
  std::array<unsigned char, 16> bytes{};
  // getrandom returns so few bytes as a whole once the system has random numbers.
  ssize_t got = 0;
  while ((got = getrandom(bytes.data(), bytes.size(), 0)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(bytes.size())) {
    throw Error(ExitCode::kInternal, std::string("the system provides no random numbers: ") + std::strerror(errno),
                std::string("set ") + kTokenVariable + " to a long random word on all ranks");
  }
  return Hex(bytes);
}

std::string Proof(const std::string& token, const std::vector<std::string_view>& parts) {
  std::string message;
  for (const std::string_view part : parts) message.append(std::to_string(part.size())).append(":").append(part);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(), &size);
  return Hex(std::span(digest).first(size));
}

bool SameProof(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace dtrain::launch
