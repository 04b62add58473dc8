// SHA-256, for fingerprints of data sets and checksums of checkpoints. A library of its own, so that programs without
// images need not link image libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace dtrain::data {

class Sha256 {
 public:
  Sha256();

  Sha256& Update(const void* bytes, size_t size);
  Sha256& UpdateText(std::string_view text);  // hashes the length, too, so that "ab"+"c" differs from "a"+"bc"
  Sha256& UpdateInteger(int64_t value);       // as 8 bytes, little-endian
  // The name of a file, without its folder, and its size.
  Sha256& UpdateFile(const std::string& path, uint64_t bytes);
  std::string Hex();  // call once, as the last method; returns 64 lower-case digits

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string Sha256Of(std::string_view text);

}  // namespace dtrain::data
