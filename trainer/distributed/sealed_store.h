// Protects the values in c10d's TCPStore. That store serves whoever connects: it knows no token, and lists, replaces
// and deletes keys for strangers. So a value is trusted only if it was sealed by somebody who knows the run's token.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dtrain::distributed {

// Forwards everything to another store, and puts before each value a proof of that value and its key. get(),
// compareSet() and multiGet() throw PeerLostError for a value without a valid proof. Counters (add) are not sealed,
// because nothing here relies on them.
class SealedStore : public c10d::Store {
 public:
  SealedStore(c10::intrusive_ptr<c10d::Store> store, std::string token);

  c10::intrusive_ptr<c10d::Store> clone() override;

  using Store::compareSet;
  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  // Sets the value if the key has none; returns the key's value then. Throws c10::Error unless `expected` is empty.
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) override;
  bool hasExtendedApi() const override;

  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;

 private:
  std::vector<uint8_t> Sealed(const std::string& key, std::vector<uint8_t> value) const;
  std::vector<uint8_t> Opened(const std::string& key, std::vector<uint8_t> sealed) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string token_;
};

}  // namespace dtrain::distributed
