// Result<T>: a value or an Error. The one way a function says that the outside world failed it.
//
//   Result<Bytes> bytes = store.get(name);
//   if (!bytes) return bytes.error();
//
//   ASSIGN_OR_RETURN(Bytes bytes, store.get(name));   // the same, passing the error up
//   RETURN_IF_ERROR(store.remove(name));
//
// Spelt like std::expected (has_value, value, error), which libstdc++ 12 has only under C++23.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace tern {

// gRPC's codes under short names, with gRPC's meaning. `unavailable` retries the call, `aborted`
// the operation, `exhausted` another place; the others never retry. docs/errors.md has the exit
// codes. The numbers are printed nowhere, so they may change.
enum class Code {
  cancelled,            // the caller asked for it to stop
  invalid,              // the user's mistake: a run file, a flag, a value out of range
  not_found,            // a name that does not exist
  already_exists,       // a create-only put found the name taken
  permission_denied,    // the outside world knows us and says no
  exhausted,            // disk full, quota, out of memory
  failed_precondition,  // right request, wrong state: another recipe's run folder, a live holder
  aborted,              // lost a race (the lease); start the operation again from the top
  deadline_exceeded,    // waited as long as was allowed
  unavailable,          // may work in a moment
  corrupt,              // bytes that do not verify
  out_of_range,         // the arithmetic left the numbers: a loss that is not finite
  internal,             // our own bug, or LibTorch's
};

std::string_view code_name(Code code);

struct Error {
  Code code = Code::internal;
  std::string message;

  // "corrupt: record 12: checksum differs"
  std::string to_string() const { return std::string(code_name(code)) + ": " + message; }

  // Adds what the caller was doing: `read checkpoint 12` + `checksum differs`.
  Error at(std::string_view doing) const {
    return Error{code, std::string(doing) + ": " + message};
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // Lets a Result<unique_ptr<Base>> be returned from a unique_ptr<Derived>.
  template <typename U>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
             !std::is_same_v<std::remove_cvref_t<U>, Error> &&
             !std::is_same_v<std::remove_cvref_t<U>, Result<T>>)
  Result(U&& value) : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value().
  T& value() & { return *require_value(); }
  const T& value() const& { return *const_cast<Result*>(this)->require_value(); }
  T&& value() && { return std::move(*require_value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return require_value(); }
  const T* operator->() const { return const_cast<Result*>(this)->require_value(); }

  T value_or(T fallback) const { return has_value() ? value() : std::move(fallback); }

  // REQUIRES: !has_value().
  const Error& error() const {
    if (has_value()) std::abort();
    return *std::get_if<1>(&state_);
  }

  // The same result, its error (if any) prefixed with what the caller was doing.
  Result at(std::string_view doing) && {
    if (has_value()) return std::move(*this);
    return error().at(doing);
  }

 private:
  T* require_value() {
    if (!has_value()) std::abort();
    return std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}

  bool has_value() const { return !failed_; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: !has_value().
  const Error& error() const {
    if (!failed_) std::abort();
    return error_;
  }

  Result at(std::string_view doing) && {
    if (!failed_) return {};
    return error_.at(doing);
  }

  // Says in the source that this failure does not matter here, and makes that searchable.
  void permit_unchecked_error() const {}

 private:
  Error error_;
  bool failed_ = false;
};

using Status = Result<void>;

// Reads like a sentence where an error is made: `return fail(Code::corrupt, "...")`.
inline Error fail(Code code, std::string message) { return Error{code, std::move(message)}; }

#define TERN_CONCAT_INNER(a, b) a##b
#define TERN_CONCAT(a, b) TERN_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                          \
  do {                                                       \
    if (auto status_ = (expression); !status_.has_value()) { \
      return status_.error();                                \
    }                                                        \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(TERN_CONCAT(result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.has_value()) return temporary.error();            \
  declaration = std::move(temporary).value()

// For our own bugs only: no input can trigger it. Prints and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
// Not plain CHECK: LibTorch's logging defines that.
#define TERN_CHECK(condition)                                               \
  do {                                                                      \
    if (!(condition)) ::tern::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)

}  // namespace tern
