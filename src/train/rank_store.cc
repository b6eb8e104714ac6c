#include "train/rank_store.h"

#include "core/bytes.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

using Value = std::vector<uint8_t>;

Bytes bytes_of(const Value& value) { return Bytes(value.begin(), value.end()); }
Value value_of(const Bytes& bytes) { return Value(bytes.begin(), bytes.end()); }

// c10d wants exceptions.
template <typename T>
T unwrap(Result<T> result) {
  if (!result.has_value()) C10_THROW_ERROR(DistStoreError, result.error().to_string());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// As safe from any thread as the link is. A thread that nobody waits for may still be connecting
// when the rank is through, so the link is shared.
class RankStore : public c10d::Store {
 public:
  explicit RankStore(std::shared_ptr<RankLink> link) : link_(std::move(link)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<RankStore>(link_); }
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const Value& value) override {
    unwrap(link_->set(key, bytes_of(value)));
  }
  Value compareSet(const std::string& key, const Value& expected, const Value& desired) override {
    return value_of(unwrap(link_->compare_set(key, bytes_of(expected), bytes_of(desired))));
  }
  Value get(const std::string& key) override { return value_of(unwrap(link_->get(key, timeout_))); }
  int64_t add(const std::string& key, int64_t value) override {
    return unwrap(link_->add(key, value));
  }
  bool deleteKey(const std::string& key) override { return unwrap(link_->remove(key)); }
  bool check(const std::vector<std::string>& keys) override { return unwrap(link_->check(keys)); }
  int64_t getNumKeys() override { return unwrap(link_->keys()); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    unwrap(link_->wait(keys, timeout));
  }

 private:
  const std::shared_ptr<RankLink> link_;
};

}  // namespace

std::shared_ptr<RendezvousStore> store_over(std::shared_ptr<RankLink> link) {
  return std::make_shared<RendezvousStore>(
      RendezvousStore{c10::make_intrusive<RankStore>(std::move(link))});
}

}  // namespace tern
