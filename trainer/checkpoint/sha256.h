// SHA-256 of a stream of bytes, over OpenSSL's EVP interface (which uses the CPU's SHA instructions where it has them).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace dtrain::checkpoint {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, size_t bytes);
  // 64 lower-case hexadecimal digits. To be called once, last.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Of(std::string_view text);

}  // namespace dtrain::checkpoint
