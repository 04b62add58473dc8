// SHA-256: fingerprints of data sets, checksums of checkpoints. A library of its own, so that what needs no images
// links none of their libraries.
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
  void UpdateText(std::string_view text);  // with its length, so that "ab"+"c" differs from "a"+"bc"
  void UpdateInteger(int64_t value);       // little-endian
  std::string Hex();                       // to be called once, last; 64 lower-case digits

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Of(std::string_view text);

}  // namespace dtrain::data
