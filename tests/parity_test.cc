// PyTorch and torchvision judge our networks and our learner: the same weights and inputs, on both
// sides in float64 and float32 (parity_judge.py). Both sides call the same kernels, so that what
// differs is a mistake and not rounding.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/random.h"
#include "model/network.h"
#include "process.h"
#include "python_torch_half.h"
#include "storage/safetensors.h"
#include "tiny_data.h"
#include "train/learner.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kCannotJudge = 77;  // parity_judge.py has no PyTorch

// Where the Python package is of which our LibTorch is the other half.
fs::path torch_site() {
  Dl_info info{};
  const auto* symbol = reinterpret_cast<const void*>(&at::globalContext);
  EXPECT_NE(dladdr(symbol, &info), 0);
  return fs::canonical(info.dli_fname).parent_path().parent_path().parent_path();
}

class Parity : public testing::Test {
 protected:
  void SetUp() override {
    const char* judges = std::getenv("TERN_TEST_PYTHONPATH");
    if (judges == nullptr || !fs::is_directory(fs::path(judges) / "torchvision")) {
      GTEST_SKIP() << "no torchvision in TERN_TEST_PYTHONPATH";
    }
    judges_ = judges;
    at::set_num_threads(1);  // as the judge does: with another number the last digits differ
    stand_in_for_cuda(torch_site(), scratch_ / "no-cuda");
  }

  // What the judge says of the files; null where it cannot judge.
  json judged(const std::string& kind, const std::vector<fs::path>& places) {
    Process::Start start{.command = {"python3", TERN_SOURCE_DIR "/tests/parity_judge.py", kind}};
    for (const auto& place : places) start.command.push_back(place.string());
    start.environment = {{"PYTHONPATH", torch_site().string() + ":" + judges_},
                         {"PYTHONDONTWRITEBYTECODE", "1"},
                         {"LD_LIBRARY_PATH", (scratch_ / "no-cuda").string()}};
    const Finished finished = run_to_end(start);
    if (finished.exit_code == kCannotJudge) {
      skip_reason_ = finished.err;
      return nullptr;
    }
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    const json said = json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(said.is_object()) << finished.out;
    return said;
  }

  ScratchFolder scratch_;
  std::string skip_reason_;

 private:
  std::string judges_;
};

// Every figure of a kind must be a number, and small.
void expect_within(const json& said, const std::string& name,
                   const std::map<std::string, double>& tolerances) {
  ASSERT_TRUE(said.contains(name)) << said.dump();
  for (const auto& [kind, tolerance] : tolerances) {
    const json figure = said[name].value(kind, json());
    ASSERT_TRUE(figure.is_number()) << name << ", " << kind << ": " << figure.dump();
    EXPECT_LE(figure.get<double>(), tolerance) << name << ", " << kind;
  }
}

json describe_case(const ModelOptions& model, int64_t classes, uint64_t seed) {
  return {{"model", model.name},          {"width", model.width}, {"stem", model.stem},
          {"zero_init", model.zero_init}, {"classes", classes},   {"seed", seed}};
}

std::string dtype_of(const torch::Tensor& tensor) {
  if (tensor.scalar_type() == torch::kFloat64) return "F64";
  return tensor.scalar_type() == torch::kFloat32 ? "F32" : "I64";
}

// One forward and backward pass of a network, to be judged.
class Pass {
 public:
  Pass(const ModelOptions& options, NetworkShape shape, torch::Dtype type,
       torch::MemoryFormat format = torch::MemoryFormat::Contiguous) {
    constexpr uint64_t kSeed = 3;
    at::manual_seed(kSeed);
    auto made = make_network(options, shape);
    TERN_CHECK(made.has_value());
    const std::shared_ptr<Network> network = *made;
    network->to(type);
    const auto images = at::randn({4, shape.channels, shape.height, shape.width}, type);
    const auto labels = at::randint(shape.classes, {4}, torch::kInt64);
    add("images", images);
    add("labels", labels);
    for (const auto& item : network->named_parameters()) {
      add("begin." + item.key(), item.value());
      if (item.value().dim() == 4) item.value().set_data(item.value().contiguous(format));
    }
    for (const auto& item : network->named_buffers()) add("begin." + item.key(), item.value());

    const auto given = images.contiguous(format);
    const auto logits = network->forward(given);
    const auto loss = at::cross_entropy_loss(logits, labels);
    loss.backward();
    network->eval();
    {
      at::NoGradGuard no_grad;
      add("evaluated", network->forward(given));
    }
    add("logits", logits);
    add("loss", loss);
    for (const auto& item : network->named_parameters())
      add("gradient." + item.key(), item.value().grad());
    for (const auto& item : network->named_buffers()) add("buffer." + item.key(), item.value());
    case_ = describe_case(options, shape.classes, kSeed);
    case_["layout"] = format == torch::MemoryFormat::ChannelsLast ? "channels_last" : "contiguous";
  }

  void write(const fs::path& path) const {
    Safetensors file{.metadata = {{"case", case_.dump()}}};
    for (const auto& [name, tensor] : tensors_) {
      const BytesView bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
      file.tensors.push_back({name, dtype_of(tensor), tensor.sizes().vec(), bytes});
    }
    write_text(path, write_safetensors(file));
  }

 private:
  void add(const std::string& name, const torch::Tensor& tensor) {
    tensors_[name] = tensor.detach().clone(torch::MemoryFormat::Contiguous);
  }

  std::map<std::string, torch::Tensor> tensors_;
  json case_;
};

TEST_F(Parity, LogitsLossAndEveryGradientAreThoseOfPyTorch) {
  const auto wide = torch::MemoryFormat::ChannelsLast;
  const ModelOptions small{.name = "small-cnn", .width = 8};
  const ModelOptions tutorial{.name = "cifar-tutorial"};
  const ModelOptions resnet18{.name = "resnet18"};
  // Not resnet50: the blocks of a net that begins so hide what is wrong in them.
  const ModelOptions zeroed{.name = "resnet18", .zero_init = true};
  const ModelOptions resnet50{.name = "resnet50"};
  const ModelOptions thin{.name = "resnet34", .stem = "small"};
  const std::map<std::string, Pass> passes = {
      {"f64-small-cnn", {small, {1, 28, 29, 10}, torch::kFloat64}},
      {"f64-cifar-tutorial", {tutorial, {3, 32, 32, 10}, torch::kFloat64}},
      {"f64-resnet18", {resnet18, {3, 64, 64, 10}, torch::kFloat64}},
      {"f64-resnet18-zero-init", {zeroed, {3, 70, 49, 10}, torch::kFloat64}},
      {"f64-resnet50", {resnet50, {3, 64, 64, 10}, torch::kFloat64}},
      {"f64-resnet50-channels-last", {resnet50, {3, 64, 64, 10}, torch::kFloat64, wide}},
      {"f64-resnet34-small-grey", {thin, {1, 16, 16, 10}, torch::kFloat64}},
      {"f32-small-cnn", {small, {1, 28, 29, 10}, torch::kFloat32}},
      {"f32-cifar-tutorial", {tutorial, {3, 32, 32, 10}, torch::kFloat32}},
      {"f32-resnet18", {resnet18, {3, 64, 64, 10}, torch::kFloat32}},
      {"f32-resnet18-channels-last", {resnet18, {3, 64, 64, 10}, torch::kFloat32, wide}},
      {"f32-resnet50", {resnet50, {3, 64, 64, 10}, torch::kFloat32}},
      {"f32-resnet50-channels-last", {resnet50, {3, 64, 64, 10}, torch::kFloat32, wide}},
  };
  std::vector<fs::path> files;
  for (const auto& [name, pass] : passes) {
    files.push_back(scratch_ / (name + ".safetensors"));
    pass.write(files.back());
  }
  const json said = judged("network", files);
  if (!skip_reason_.empty()) GTEST_SKIP() << skip_reason_;
  for (const auto& [name, pass] : passes) {
    const bool is_double = name.starts_with("f64");
    const double logits = is_double ? 1e-9 : 1e-5;
    // At this depth the last digit decides on which side of zero some ReLUs are: PyTorch's own two
    // layouts differ by 8e-5 in the logits and 3e-2 in the gradients. So what is asked is how far
    // each is from fp64.
    if (name == "f32-resnet50-channels-last") {
      expect_within(said, name, {{"rounding", 2}});
      continue;
    }
    expect_within(said, name,
                  {{"logits", logits},
                   {"evaluated logits", logits},
                   {"loss", logits},
                   {"buffers", logits},
                   {"gradients", is_double ? 1e-9 : 1e-4}});
  }
  // A seed means the same first weights on both sides.
  for (const char* name :
       {"f64-resnet18", "f64-resnet18-zero-init", "f64-resnet50", "f64-cifar-tutorial"})
    expect_within(said, name, {{"first weights", 0.0}});
}

// So many steps of a learner, to be judged.
class Steps {
 public:
  Steps(Learner::Setup setup, int64_t steps) : setup_(std::move(setup)), steps_(steps) {}

  // Into the folder: the weights before and after, and what happened between.
  void run(const fs::path& folder) const {
    fs::create_directory(folder);
    auto learner = Learner::create(setup_);
    ASSERT_TRUE(learner.has_value()) << learner.error().to_string();
    write_weights(**learner, folder / "begin.safetensors");
    std::vector<uint8_t> images;
    std::vector<int64_t> labels;
    std::vector<double> rates, losses;
    for (int64_t step = 0; step < steps_; ++step) {
      const Batch batch = make_batch(step);
      images.insert(images.end(), batch.images.begin(), batch.images.end());
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
      rates.push_back(setup_.optimizer.learning_rate / static_cast<double>(step + 1));
      ASSERT_TRUE((*learner)->put(batch).has_value());
      const auto results = (*learner)->step(step, rates.back());
      ASSERT_TRUE(results.has_value()) << results.error().to_string();
      for (const auto& result : *results) losses.push_back(result.loss);
    }
    write_weights(**learner, folder / "end.safetensors");
    const std::vector<int64_t> shape = {steps_, kSamples, setup_.shape.channels,
                                        setup_.shape.height, setup_.shape.width};
    write_text(folder / "batches.safetensors",
               write_safetensors({.tensors = {{"labels", "I64", {steps_, kSamples}, bytes(labels)},
                                              {"losses", "F64", {steps_}, bytes(losses)},
                                              {"images", "U8", shape, bytes(images)}},
                                  .metadata = {{"case", describe(rates).dump()}}}));
  }

 private:
  static constexpr int64_t kSamples = 4;

  template <typename Value>
  static BytesView bytes(const std::vector<Value>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
  }

  static void write_weights(const Learner& learner, const fs::path& path) {
    const auto weights = learner.weights();
    ASSERT_TRUE(weights.has_value()) << weights.error().to_string();
    write_text(path, *weights);
  }

  // Noise, with a mark of the class.
  Batch make_batch(int64_t step) const {
    Batch batch;
    batch.positions = {0, kSamples};
    batch.shape = setup_.shape;
    Random random(5, Stream::augment, static_cast<uint64_t>(step));
    for (int64_t i = 0; i < kSamples; ++i) {
      const int64_t label = random.below(static_cast<uint32_t>(setup_.classes));
      batch.labels.push_back(label);
      for (int64_t at = 0; at < setup_.shape.bytes(); ++at) {
        const bool is_mark = at % setup_.classes == label;
        batch.images.push_back(static_cast<uint8_t>(random.below(150) + (is_mark ? 100 : 0)));
      }
    }
    return batch;
  }

  json describe(const std::vector<double>& rates) const {
    json described = describe_case(setup_.model, setup_.classes, setup_.seed);
    described["precision"] = precision_name(setup_.precision);
    described["rates"] = rates;
    described["momentum"] = setup_.optimizer.momentum;
    described["nesterov"] = setup_.optimizer.nesterov;
    described["weight_decay"] = setup_.optimizer.weight_decay;
    described["weight_decay_on"] = setup_.optimizer.weight_decay_on;
    described["label_smoothing"] = setup_.label_smoothing;
    described["mean"] = setup_.model.mean;
    described["stddev"] = setup_.model.stddev;
    return described;
  }

  const Learner::Setup setup_;
  const int64_t steps_;
};

Learner::Setup setup_of(const ModelOptions& model, ImageShape shape,
                        const OptimizerOptions& optimizer) {
  return {.model = model,
          .optimizer = optimizer,
          .seed = 4,
          .shape = shape,
          .classes = 10,
          .precision = Precision::fp64};
}

// The judge also loads the weights, before and after, into torchvision's models with strict=True.
TEST_F(Parity, TenStepsAreThoseOfPyTorchsSgd) {
  const std::vector<double> mean = {0.485, 0.456, 0.406}, stddev = {0.229, 0.224, 0.225};
  const OptimizerOptions plain{.learning_rate = 0.05, .momentum = 0.9};
  const OptimizerOptions rich{
      .learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-2};
  OptimizerOptions sparing = rich;
  sparing.weight_decay_on = "weights";
  OptimizerOptions careful = sparing;
  careful.learning_rate = 0.01;
  const auto named = [&](const char* name) {
    return ModelOptions{.name = name, .mean = mean, .stddev = stddev};
  };
  std::map<std::string, Learner::Setup> setups = {
      {"small-cnn", setup_of({.name = "small-cnn", .width = 8}, {1, 28, 28}, rich)},
      {"small-cnn-plain", setup_of({.name = "small-cnn", .width = 8}, {1, 28, 28}, plain)},
      {"cifar-tutorial", setup_of(named("cifar-tutorial"), {3, 32, 32}, sparing)},
      {"resnet18", setup_of(named("resnet18"), {3, 64, 64}, rich)},
      {"resnet18-weights", setup_of(named("resnet18"), {3, 64, 48}, sparing)},
      {"resnet50", setup_of(named("resnet50"), {3, 64, 64}, careful)},
      {"resnet50-f32", setup_of(named("resnet50"), {3, 64, 64}, careful)},
  };
  setups["resnet18-weights"].label_smoothing = 0.1;
  // From other weights the deepest net is chaotic: PyTorch beside itself, conv1 1e-15 apart,
  // is a part in 10,000 of the loss apart after ten steps. Blocks that begin as nothing are not.
  setups["resnet50"].model.zero_init = setups["resnet50-f32"].model.zero_init = true;
  setups["resnet50-f32"].precision = Precision::fp32;
  std::vector<fs::path> folders;
  for (const auto& [name, setup] : setups) {
    folders.push_back(scratch_ / name);
    Steps(setup, setup.precision == Precision::fp64 ? 10 : 1).run(folders.back());
    if (HasFatalFailure()) return;
  }
  const json said = judged("steps", folders);
  if (!skip_reason_.empty()) GTEST_SKIP() << skip_reason_;
  for (const auto& [name, setup] : setups) {
    const double tolerance = setup.precision == Precision::fp64 ? 1e-9 : 1e-4;
    expect_within(said, name, {{"losses", tolerance}, {"weights", tolerance}});
  }
}

}  // namespace
}  // namespace tern
