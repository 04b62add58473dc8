// SHA-256, for fingerprints of data sets and checksums of checkpoints. A library of its own, so that programs without
// images need not link image libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace dtrain::data {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* bytes, size_t size);
  void UpdateText(std::string_view text);  // hashes the length, too, so that "ab"+"c" differs from "a"+"bc"
  void UpdateInteger(int64_t value);       // as 8 bytes, little-endian
  std::string Hex();                       // call once, as the last method; returns 64 lower-case digits

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Of(std::string_view text);

}  // namespace dtrain::data
