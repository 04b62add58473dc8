// SHA-256, for fingerprints of data sets.
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
  std::string Hex();                       // once; 64 digits

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace dtrain::data
