#include "train/train_state.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

using Json = nlohmann::json;

// Reads typed fields and remembers the first that is missing or wrong, so that parsing reads as a
// list of fields.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  void read(const char* name, int64_t& out) {
    if (const Json* field = find(name, &Json::is_number_integer)) out = field->get<int64_t>();
  }
  void read(const char* name, double& out) {
    if (const Json* field = find(name, &Json::is_number)) out = field->get<double>();
  }
  void read(const char* name, std::string& out) {
    if (const Json* field = find(name, &Json::is_string)) out = field->get<std::string>();
  }
  Status status() const {
    if (wrong_.empty()) return {};
    return fail(Code::corrupt, fmt::format("field '{}' is missing or of the wrong type", wrong_));
  }

 private:
  const Json* find(const char* name, bool (Json::*is_right)() const noexcept) {
    const auto found = object_.find(name);
    if (found != object_.end() && ((*found).*is_right)()) return &*found;
    if (wrong_.empty()) wrong_ = name;
    return nullptr;
  }

  const Json& object_;
  std::string wrong_;
};

Result<Json> parse_object(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(Code::corrupt, "the checkpoint's state is no JSON object");
  return json;
}

// Where each tensor of a blob lies in it.
struct BlobTensors {
  std::map<std::string, TensorView> by_name;
};

Result<std::vector<BlobTensors>> parse_blobs(const std::vector<Bytes>& blobs) {
  std::vector<BlobTensors> parsed;
  for (const Bytes& blob : blobs) {
    ASSIGN_OR_RETURN(const Safetensors file, parse_safetensors(blob));
    BlobTensors& tensors = parsed.emplace_back();
    for (const TensorView& tensor : file.tensors) tensors.by_name[tensor.name] = tensor;
  }
  return parsed;
}

// The bytes of one tensor, from its pieces.
Result<BytesView> join_pieces(const std::string& name, const Json& pieces,
                              const std::vector<BlobTensors>& blobs, std::vector<Bytes>& joined) {
  const auto damaged = [&] {
    return fail(Code::corrupt, fmt::format("the pieces of tensor '{}' do not fit its blobs", name));
  };
  if (!pieces.is_array() || pieces.empty()) return damaged();
  std::vector<BytesView> views;
  for (const Json& piece : pieces) {
    if (!piece.is_object() || !piece.contains("blob") || !piece["blob"].is_number_unsigned() ||
        !piece.contains("tensor") || !piece["tensor"].is_string()) {
      return damaged();
    }
    const auto blob = piece["blob"].get<uint64_t>();
    if (blob >= blobs.size()) return damaged();
    const auto found = blobs[blob].by_name.find(piece["tensor"].get<std::string>());
    if (found == blobs[blob].by_name.end()) return damaged();
    views.push_back(found->second.data);
  }
  if (views.size() == 1) return views[0];
  Bytes whole;
  for (BytesView view : views) whole.append(view);
  joined.push_back(std::move(whole));
  return BytesView(joined.back());
}

Result<TensorView> gather_tensor(const std::string& name, const Json& entry,
                                 const std::vector<BlobTensors>& blobs,
                                 std::vector<Bytes>& joined) {
  const auto damaged = [&](const char* what) {
    return fail(Code::corrupt, fmt::format("tensor '{}': {}", name, what));
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("pieces")) {
    return damaged("its entry is incomplete");
  }
  TensorView tensor;
  tensor.name = name;
  tensor.dtype = entry["dtype"].get<std::string>();
  const auto element = dtype_bytes(tensor.dtype);
  if (!element) return damaged("unknown dtype");
  ASSIGN_OR_RETURN(tensor.data, join_pieces(name, entry["pieces"], blobs, joined));
  int64_t bytes = *element;
  for (const Json& side : entry["shape"]) {
    if (!side.is_number_unsigned()) return damaged("its shape is no list of sizes");
    tensor.shape.push_back(side.get<int64_t>());
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) return damaged("too large");
  }
  if (bytes != static_cast<int64_t>(tensor.data.size())) {
    return damaged("its pieces do not add up to its shape");
  }
  return tensor;
}

}  // namespace

Result<std::string> format_state(const CheckpointText& text, const std::vector<Bytes>& blobs) {
  const TrainState& state = text.state;
  Json json = {
      {"step", state.step},
      {"epoch", text.epoch},
      {"batch", text.batch},
      {"epochs_closed", state.epochs_closed},
      {"samples", state.samples},
      {"train_seconds", state.train_seconds},
      {"epoch_loss", state.epoch.loss},
      {"epoch_correct", state.epoch.correct},
      {"epoch_samples", state.epoch.samples},
      {"best_top1", state.best.top1},
      {"best_step", state.best.step},
      {"rate_factor", state.rate_factor},
      {"roll_backs", state.roll_backs},
      {"loss_mean", state.loss_mean},
      {"has_target", state.has_target ? 1 : 0},
      {"config", text.config_toml},
      {"version", text.version},
      {"dataset_id", text.dataset_id},
      {"instruction_set", text.instruction_set},
      {"fingerprint", text.fingerprint},
      {"threads", text.threads},
      {"steps_per_epoch", text.steps_per_epoch},
  };
  Json& tensors = json["tensors"] = Json::object();
  for (size_t i = 0; i < blobs.size(); ++i) {
    ASSIGN_OR_RETURN(const Safetensors file, parse_safetensors(blobs[i]));
    for (const TensorView& tensor : file.tensors) {
      tensors[tensor.name] = {{"dtype", tensor.dtype},
                              {"shape", tensor.shape},
                              {"pieces", {{{"blob", i}, {"tensor", tensor.name}}}}};
    }
  }
  return json.dump();
}

Result<CheckpointText> parse_state(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, parse_object(text));
  CheckpointText out;
  Fields fields(json);
  fields.read("step", out.state.step);
  fields.read("epochs_closed", out.state.epochs_closed);
  fields.read("samples", out.state.samples);
  fields.read("train_seconds", out.state.train_seconds);
  fields.read("epoch_loss", out.state.epoch.loss);
  fields.read("epoch_correct", out.state.epoch.correct);
  fields.read("epoch_samples", out.state.epoch.samples);
  fields.read("best_top1", out.state.best.top1);
  fields.read("best_step", out.state.best.step);
  // Not in checkpoints of before version 0.4.
  if (json.contains("rate_factor")) {
    int64_t has_target = 0;
    fields.read("rate_factor", out.state.rate_factor);
    fields.read("roll_backs", out.state.roll_backs);
    fields.read("loss_mean", out.state.loss_mean);
    fields.read("has_target", has_target);
    out.state.has_target = has_target != 0;
  }
  fields.read("config", out.config_toml);
  fields.read("version", out.version);
  fields.read("dataset_id", out.dataset_id);
  fields.read("instruction_set", out.instruction_set);
  if (json.contains("fingerprint")) fields.read("fingerprint", out.fingerprint);
  fields.read("threads", out.threads);
  fields.read("steps_per_epoch", out.steps_per_epoch);
  RETURN_IF_ERROR(fields.status());
  if (out.state.step < 0 || out.steps_per_epoch < 1) {
    return fail(Code::corrupt, "the checkpoint's counters make no sense");
  }
  return out;
}

Result<Safetensors> gather_tensors(const std::string& text, const std::vector<Bytes>& blobs,
                                   std::vector<Bytes>& joined) {
  ASSIGN_OR_RETURN(const Json json, parse_object(text));
  if (!json.contains("tensors") || !json["tensors"].is_object()) {
    return fail(Code::corrupt, "the checkpoint lists no tensors");
  }
  ASSIGN_OR_RETURN(const std::vector<BlobTensors> parsed, parse_blobs(blobs));
  // Views into `joined` must stay put while it grows.
  joined.reserve(joined.size() + json["tensors"].size());
  Safetensors gathered;
  for (const auto& [name, entry] : json["tensors"].items()) {
    ASSIGN_OR_RETURN(TensorView tensor, gather_tensor(name, entry, parsed, joined));
    gathered.tensors.push_back(std::move(tensor));
  }
  return gathered;
}

}  // namespace tern
