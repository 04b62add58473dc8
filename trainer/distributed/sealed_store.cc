#include "trainer/distributed/sealed_store.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "data/shown.h"
#include "trainer/errors.h"
#include "trainer/launch/run_token.h"

namespace dtrain::distributed {
namespace {

constexpr size_t kProofBytes = 64;  // the length of the proof that precedes the value
constexpr size_t kShownKeyBytes = 100;

std::string ProofOf(const std::string& token, const std::string& key, std::string_view value) {
  return launch::Proof(token, {"store", key, value});
}

std::string_view TextOf(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store, std::string token)
    : store_(std::move(store)), token_(std::move(token)) {}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), token_);
}

std::vector<uint8_t> SealedStore::Sealed(const std::string& key, std::vector<uint8_t> value) const {
  const std::string proof = ProofOf(token_, key, TextOf(value));
  value.insert(value.begin(), proof.begin(), proof.end());
  return value;
}

std::vector<uint8_t> SealedStore::Opened(const std::string& key, std::vector<uint8_t> sealed) const {
  const std::string_view text = TextOf(sealed);
  const std::string_view value = text.substr(std::min(kProofBytes, text.size()));
  if (!launch::SameProof(text.substr(0, kProofBytes), ProofOf(token_, key, value))) {
    throw PeerLostError("a stranger has written to the store of this run, as '" + Shown(key, kShownKeyBytes) + "'",
                        "check who can reach the port of rank 0's store (docs/trust.md); start the run again");
  }
  sealed.erase(sealed.begin(), sealed.begin() + kProofBytes);
  return sealed;
}

void SealedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(key, Sealed(key, value));
}

std::vector<uint8_t> SealedStore::get(const std::string& key) { return Opened(key, store_->get(key)); }

std::vector<uint8_t> SealedStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  TORCH_CHECK(expected.empty(), "SealedStore::compareSet expects nothing");
  return Opened(key, store_->compareSet(key, expected, Sealed(key, desired)));
}

std::vector<std::vector<uint8_t>> SealedStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values = store_->multiGet(keys);
  TORCH_CHECK(values.size() == keys.size(), "the store gave ", values.size(), " values for ", keys.size(), " keys");
  for (size_t i = 0; i < keys.size(); ++i) values[i] = Opened(keys[i], std::move(values[i]));
  return values;
}

void SealedStore::multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<uint8_t>>& values) {
  TORCH_CHECK(values.size() == keys.size(), "as many values as keys");
  std::vector<std::vector<uint8_t>> sealed;
  for (size_t i = 0; i < keys.size(); ++i) sealed.push_back(Sealed(keys[i], values[i]));
  store_->multiSet(keys, sealed);
}

bool SealedStore::hasExtendedApi() const { return store_->hasExtendedApi(); }
int64_t SealedStore::add(const std::string& key, int64_t value) { return store_->add(key, value); }
bool SealedStore::deleteKey(const std::string& key) { return store_->deleteKey(key); }
bool SealedStore::check(const std::vector<std::string>& keys) { return store_->check(keys); }
int64_t SealedStore::getNumKeys() { return store_->getNumKeys(); }
void SealedStore::wait(const std::vector<std::string>& keys) { store_->wait(keys); }
void SealedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  store_->wait(keys, timeout);
}
const std::chrono::milliseconds& SealedStore::getTimeout() const noexcept { return store_->getTimeout(); }
void SealedStore::setTimeout(const std::chrono::milliseconds& timeout) { store_->setTimeout(timeout); }

}  // namespace dtrain::distributed
