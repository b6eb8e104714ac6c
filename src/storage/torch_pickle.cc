#include "storage/torch_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tern {
namespace {

// A state dict has about 30 values a tensor, a whole training state a few times that.
constexpr size_t kValuesMax = 1'000'000;
// These are copied for each tensor that refers to them, so a few bytes must not ask for many.
constexpr size_t kDimensionsMax = 16;
constexpr size_t kStorageKeyBytesMax = 64;

constexpr std::pair<std::string_view, std::string_view> kStorages[] = {
    {"FloatStorage", "F32"}, {"DoubleStorage", "F64"},       {"HalfStorage", "F16"},
    {"LongStorage", "I64"},  {"BFloat16Storage", "BF16"},    {"IntStorage", "I32"},
    {"ShortStorage", "I16"}, {"CharStorage", "I8"},          {"ByteStorage", "U8"},
    {"BoolStorage", "BOOL"}, {"ComplexFloatStorage", "C64"},
};

// `name` stands for a storage's type by its dtype, and for the other callables as it is.
enum class Kind { other, number, text, tuple, list, dict, callable, storage_type, storage, tensor };

using Id = uint32_t;  // of a value

// Values refer to each other by number, so that a pickle that goes round in circles is harmless.
struct Value {
  Kind kind = Kind::other;
  int64_t number = 0;
  std::string text;       // of text, a callable, a storage type; a storage's key
  std::vector<Id> items;  // of a tuple, a list; of a dict key, value, key, value
  PickledTensor tensor;   // of a tensor, a storage
};

Error damaged(std::string_view reason) {
  return fail(Code::corrupt, fmt::format("its pickle is damaged: {}", reason));
}

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 80));
  std::ranges::replace_if(shown, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return shown;
}

// The pickle machine of Python's pickletools, with every operation that could call something left
// out. Owned by parse_state_dict(); one thread; blocks for nothing.
class Machine {
 public:
  explicit Machine(BytesView pickle) : rest_(pickle) {}

  // Runs to the end and returns the value that is left.
  Result<Id> run();
  const Value& value(Id id) const { return values_[id]; }

 private:
  Result<bool> step(uint8_t operation);  // false: that was the end
  std::optional<Status> step_number(uint8_t operation);
  std::optional<Status> step_text(uint8_t operation);
  std::optional<Status> step_container(uint8_t operation);
  std::optional<Status> step_memo(uint8_t operation);
  Status reduce();
  Status persistent();
  Status global(std::string_view module, std::string_view name);
  Result<Value> rebuild_tensor(const Value& arguments) const;
  Result<std::vector<int64_t>> sizes_of(Id id) const;

  Status push(Value value);
  Status push_number(int64_t number) { return push({.kind = Kind::number, .number = number}); }
  Status push_text(size_t length_bytes);
  Result<Id> pop();
  Result<std::vector<Id>> pop_to_mark();
  Status collect(Kind kind, std::vector<Id> items) {
    return push({.kind = kind, .items = std::move(items)});
  }
  Status collect_last(size_t count);
  Status extend(Kind kind, std::vector<Id> items);

  Result<BytesView> take(uint64_t length);
  Result<uint64_t> take_number(size_t width);
  Result<BytesView> take_line();

  BytesView rest_;
  std::deque<Value> values_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Id> memo_;
};

Result<BytesView> Machine::take(uint64_t length) {
  if (length > rest_.size()) return damaged("it is cut short");
  const BytesView taken = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return taken;
}

Result<uint64_t> Machine::take_number(size_t width) {
  ASSIGN_OR_RETURN(const BytesView bytes, take(width));
  uint64_t number = 0;
  for (size_t i = 0; i < width; ++i) {
    number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

Result<BytesView> Machine::take_line() {
  const size_t end = rest_.find('\n');
  if (end == BytesView::npos) return damaged("it is cut short");
  const BytesView line = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return line;
}

Status Machine::push(Value value) {
  if (values_.size() >= kValuesMax) return damaged("it has more values than a state dict has");
  stack_.push_back(static_cast<Id>(values_.size()));
  values_.push_back(std::move(value));
  return {};
}

Result<Id> Machine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return damaged("a value is missing");
  const Id id = stack_.back();
  stack_.pop_back();
  return id;
}

Result<std::vector<Id>> Machine::pop_to_mark() {
  if (marks_.empty()) return damaged("a mark is missing");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<Id> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

Status Machine::collect_last(size_t count) {
  std::vector<Id> items(count);
  for (size_t i = count; i-- > 0;) {
    ASSIGN_OR_RETURN(items[i], pop());
  }
  return collect(Kind::tuple, std::move(items));
}

// Adds to the list or dict below.
Status Machine::extend(Kind kind, std::vector<Id> items) {
  ASSIGN_OR_RETURN(const Id target, pop());
  Value& value = values_[target];
  if (value.kind != kind || (kind == Kind::dict && items.size() % 2 != 0)) {
    return damaged("items for something that holds none");
  }
  value.items.insert(value.items.end(), items.begin(), items.end());
  stack_.push_back(target);
  return {};
}

Status Machine::push_text(size_t length_bytes) {
  ASSIGN_OR_RETURN(const uint64_t length, take_number(length_bytes));
  ASSIGN_OR_RETURN(const BytesView text, take(length));
  return push({.kind = Kind::text, .text = std::string(text)});
}

std::optional<Status> Machine::step_number(uint8_t operation) {
  const auto whole = [this](size_t width) -> Status {
    ASSIGN_OR_RETURN(const uint64_t number, take_number(width));
    // Only the widest of them has a sign.
    return push_number(width == 4 ? int64_t{static_cast<int32_t>(number)}
                                  : static_cast<int64_t>(number));
  };
  const auto longer = [this](size_t width) -> Status {
    ASSIGN_OR_RETURN(const uint64_t length, take_number(width));
    ASSIGN_OR_RETURN(const BytesView bytes, take(length));
    if (length > 8) return push({});  // no size of ours
    uint64_t number = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    const bool is_negative = !bytes.empty() && (bytes.back() & '\x80') != 0;
    if (is_negative && length < 8) number |= ~uint64_t{0} << (8 * length);
    return push_number(static_cast<int64_t>(number));
  };
  switch (operation) {
    case 'K': return whole(1);
    case 'M': return whole(2);
    case 'J': return whole(4);
    case 0x8a: return longer(1);
    case 0x8b: return longer(4);
    case 0x88: return push_number(1);
    case 0x89: return push_number(0);
    case 'N': return push({});
    case 'G': {  // a double: nothing that we need
      if (const auto bytes = take(8); !bytes) return Status(bytes.error());
      return push({});
    }
    default: return std::nullopt;
  }
}

std::optional<Status> Machine::step_text(uint8_t operation) {
  switch (operation) {
    case 'X':
    case 'T':
    case 'B': return push_text(4);
    case 'U':
    case 'C':
    case 0x8c: return push_text(1);
    case 0x8d:
    case 0x8e: return push_text(8);
    default: return std::nullopt;
  }
}

std::optional<Status> Machine::step_container(uint8_t operation) {
  const auto with_marked = [this](auto then) -> Status {
    ASSIGN_OR_RETURN(std::vector<Id> items, pop_to_mark());
    return then(std::move(items));
  };
  const auto add = [this](Kind kind, size_t count) -> Status {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) {
      ASSIGN_OR_RETURN(items[i], pop());
    }
    return extend(kind, std::move(items));
  };
  switch (operation) {
    case '(': marks_.push_back(stack_.size()); return Status{};
    case ')': return collect(Kind::tuple, {});
    case ']': return collect(Kind::list, {});
    case '}': return collect(Kind::dict, {});
    case 0x85: return collect_last(1);
    case 0x86: return collect_last(2);
    case 0x87: return collect_last(3);
    case 't': return with_marked([&](auto items) { return collect(Kind::tuple, items); });
    case 'l': return with_marked([&](auto items) { return collect(Kind::list, items); });
    case 'e': return with_marked([&](auto items) { return extend(Kind::list, items); });
    case 'u': return with_marked([&](auto items) { return extend(Kind::dict, items); });
    case 'a': return add(Kind::list, 1);
    case 's': return add(Kind::dict, 2);
    default: return std::nullopt;
  }
}

std::optional<Status> Machine::step_memo(uint8_t operation) {
  const auto put = [this](uint64_t at) -> Status {
    if (stack_.empty()) return damaged("a value is missing");
    memo_[at] = stack_.back();
    return {};
  };
  const auto put_at = [&](size_t width) -> Status {
    ASSIGN_OR_RETURN(const uint64_t at, take_number(width));
    return put(at);
  };
  const auto get_at = [this](size_t width) -> Status {
    ASSIGN_OR_RETURN(const uint64_t at, take_number(width));
    const auto found = memo_.find(at);
    if (found == memo_.end()) return damaged("it refers to a value that it has not had");
    stack_.push_back(found->second);
    return {};
  };
  switch (operation) {
    case 'q': return put_at(1);
    case 'r': return put_at(4);
    case 0x94: return put(memo_.size());
    case 'h': return get_at(1);
    case 'j': return get_at(4);
    default: return std::nullopt;
  }
}

// Names are values here, never things: those on the list mean something to reduce(), others end it.
Status Machine::global(std::string_view module, std::string_view name) {
  const bool is_rebuild =
      module == "torch._utils" && (name == "_rebuild_tensor_v2" || name == "_rebuild_parameter");
  const bool is_dict = module == "collections" && name == "OrderedDict";
  // What LibTorch's own pickle_save() wraps dicts in.
  const bool is_tag = module == "torch.jit._pickle" && name == "restore_type_tag";
  if (is_rebuild || is_dict || is_tag || (module == "torch" && name == "Size")) {
    return push({.kind = Kind::callable, .text = std::string(name)});
  }
  if (module == "torch") {
    for (const auto& [storage, dtype] : kStorages) {
      if (storage == name) return push({.kind = Kind::storage_type, .text = std::string(dtype)});
    }
  }
  return fail(Code::corrupt,
              fmt::format("it names {}.{}, which is no tensor, dict or number and is not loaded, "
                          "because loading it would run code of the file; save the weights alone, "
                          "with torch.save(model.state_dict(), FILE)",
                          printable(module), printable(name)));
}

// ('storage', type, key, location, elements): where a tensor's numbers are.
Status Machine::persistent() {
  ASSIGN_OR_RETURN(const Id id, pop());
  const Value& tuple = values_[id];
  const bool is_storage = tuple.kind == Kind::tuple && tuple.items.size() >= 5 &&
                          values_[tuple.items[1]].kind == Kind::storage_type &&
                          values_[tuple.items[2]].kind == Kind::text &&
                          values_[tuple.items[2]].text.size() <= kStorageKeyBytesMax &&
                          values_[tuple.items[4]].kind == Kind::number;
  if (!is_storage) return damaged("a storage that is described otherwise than torch.save() does");
  Value storage{.kind = Kind::storage};
  storage.tensor.dtype = values_[tuple.items[1]].text;
  storage.tensor.storage = values_[tuple.items[2]].text;
  storage.tensor.storage_elements = values_[tuple.items[4]].number;
  return push(std::move(storage));
}

Result<std::vector<int64_t>> Machine::sizes_of(Id id) const {
  const Value& tuple = values_[id];
  if (tuple.kind != Kind::tuple || tuple.items.size() > kDimensionsMax) {
    return damaged("a tensor's shape is no shape");
  }
  std::vector<int64_t> sizes;
  for (const Id item : tuple.items) {
    if (values_[item].kind != Kind::number || values_[item].number < 0) {
      return damaged("a tensor's shape is no shape");
    }
    sizes.push_back(values_[item].number);
  }
  return sizes;
}

// (storage, offset, shape, strides, ...)
Result<Value> Machine::rebuild_tensor(const Value& arguments) const {
  if (arguments.items.size() < 4 || values_[arguments.items[0]].kind != Kind::storage ||
      values_[arguments.items[1]].kind != Kind::number || values_[arguments.items[1]].number < 0) {
    return damaged("a tensor that is described otherwise than torch.save() does");
  }
  Value made{.kind = Kind::tensor, .tensor = values_[arguments.items[0]].tensor};
  made.tensor.offset = values_[arguments.items[1]].number;
  ASSIGN_OR_RETURN(made.tensor.shape, sizes_of(arguments.items[2]));
  ASSIGN_OR_RETURN(made.tensor.strides, sizes_of(arguments.items[3]));
  if (made.tensor.shape.size() != made.tensor.strides.size()) {
    return damaged("a tensor has not as many strides as sizes");
  }
  return made;
}

Status Machine::reduce() {
  ASSIGN_OR_RETURN(const Id arguments_id, pop());
  ASSIGN_OR_RETURN(const Id callable, pop());
  const Value& arguments = values_[arguments_id];
  const std::string& name = values_[callable].text;
  if (values_[callable].kind != Kind::callable || arguments.kind != Kind::tuple) {
    return damaged("it would call what cannot be called");
  }
  if (name == "OrderedDict" && arguments.items.empty()) return collect(Kind::dict, {});
  if (name == "_rebuild_tensor_v2") {
    ASSIGN_OR_RETURN(Value made, rebuild_tensor(arguments));
    return push(std::move(made));
  }
  // A parameter is its tensor, a Size its tuple, a tagged dict the dict.
  if (name != "OrderedDict" && !arguments.items.empty()) {
    stack_.push_back(arguments.items[0]);
    return {};
  }
  return damaged(fmt::format("{} with arguments that torch.save() does not write", name));
}

Result<bool> Machine::step(uint8_t operation) {
  for (const auto part : {&Machine::step_memo, &Machine::step_text, &Machine::step_container,
                          &Machine::step_number}) {
    if (const std::optional<Status> done = (this->*part)(operation)) {
      if (!done->has_value()) return done->error();
      return true;
    }
  }
  switch (operation) {
    case 0x80: RETURN_IF_ERROR(take(1)); return true;  // the protocol's number
    case 0x95: RETURN_IF_ERROR(take(8)); return true;  // a frame's length
    case 'c': {
      ASSIGN_OR_RETURN(const BytesView module, take_line());
      ASSIGN_OR_RETURN(const BytesView name, take_line());
      RETURN_IF_ERROR(global(module, name));
      return true;
    }
    case 0x93: {
      ASSIGN_OR_RETURN(const Id name, pop());
      ASSIGN_OR_RETURN(const Id module, pop());
      RETURN_IF_ERROR(global(values_[module].text, values_[name].text));
      return true;
    }
    case 'Q': RETURN_IF_ERROR(persistent()); return true;
    case 'R': RETURN_IF_ERROR(reduce()); return true;
    case 'b':  // attributes, such as a state dict's _metadata: nothing that we need
    case '0': RETURN_IF_ERROR(pop()); return true;
    case '.': return false;
    default:
      return damaged(fmt::format("operation 0x{:02x} does not belong in a state dict", operation));
  }
}

Result<Id> Machine::run() {
  for (;;) {
    ASSIGN_OR_RETURN(const uint64_t operation, take_number(1));
    ASSIGN_OR_RETURN(const bool goes_on, step(static_cast<uint8_t>(operation)));
    if (!goes_on) return pop();
  }
}

// The tensors among a dict's values. Of equal keys the last one counts, as in Python.
std::vector<PickledTensor> tensors_of(const Machine& machine, Id id) {
  const Value& dict = machine.value(id);
  if (dict.kind != Kind::dict) return {};
  std::vector<PickledTensor> tensors;
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value& key = machine.value(dict.items[i]);
    const Value& value = machine.value(dict.items[i + 1]);
    if (key.kind != Kind::text || value.kind != Kind::tensor) continue;
    const auto [place, is_new] = places.emplace(key.text, tensors.size());
    if (is_new) tensors.emplace_back();
    tensors[place->second] = value.tensor;
    tensors[place->second].name = key.text;
  }
  return tensors;
}

std::optional<Id> find_key(const Machine& machine, Id id, std::string_view key) {
  const Value& dict = machine.value(id);
  if (dict.kind != Kind::dict) return std::nullopt;
  for (size_t i = dict.items.size() / 2; i-- > 0;) {
    const Value& candidate = machine.value(dict.items[2 * i]);
    if (candidate.kind == Kind::text && candidate.text == key) return dict.items[2 * i + 1];
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<PickledTensor>> parse_state_dict(BytesView pickle) {
  if (static_cast<int64_t>(pickle.size()) > kPickleBytesMax) {
    return damaged("it is larger than any state dict's");
  }
  Machine machine(pickle);
  ASSIGN_OR_RETURN(const Id root, machine.run());
  for (const std::string_view key : {"state_dict", "model", "model_state_dict"}) {
    const std::optional<Id> below = find_key(machine, root, key);
    if (!below) continue;
    if (std::vector<PickledTensor> tensors = tensors_of(machine, *below); !tensors.empty()) {
      return tensors;
    }
  }
  std::vector<PickledTensor> tensors = tensors_of(machine, root);
  if (!tensors.empty()) return tensors;
  return fail(Code::invalid,
              "it holds no state dict, neither by itself nor under state_dict, model "
              "or model_state_dict; save one with torch.save(model.state_dict(), "
              "FILE)");
}

}  // namespace tern
