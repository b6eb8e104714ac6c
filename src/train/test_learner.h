// A small network and batches to train it on, for the learner's tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "core/random.h"
#include "train/learner.h"

namespace tern {

inline Learner::Setup small_setup() {
  return {.model = {.name = "small-cnn", .width = 4, .dropout = 0.3},
          .optimizer = {.learning_rate = 0.1, .momentum = 0.9},
          .seed = 5,
          .shape = {1, 8, 8},
          .classes = 6,
          .threads = 1};
}

// A network with batch norm, whose tensors lie in memory in an order of their own.
inline Learner::Setup resnet_setup() {
  Learner::Setup setup = small_setup();
  setup.model = {.name = "resnet18", .stem = "small"};
  return setup;
}

// A batch that is a function of its number, of samples that can be told apart.
inline Batch batch_of(int64_t number, int64_t samples = 12) {
  Batch batch;
  batch.positions = {0, samples};
  batch.shape = {1, 8, 8};
  Random random(11, Stream::augment, static_cast<uint64_t>(number));
  for (int64_t i = 0; i < samples; ++i) {
    batch.labels.push_back(i % 6);
    for (int pixel = 0; pixel < 64; ++pixel) {
      batch.images.push_back(
          static_cast<uint8_t>(random.below(60) + (pixel / 10 == i % 6 ? 190 : 0)));
    }
  }
  return batch;
}

// The samples [begin, end) of a batch.
inline Batch part_of(const Batch& whole, int64_t begin, int64_t end) {
  Batch part{.positions = {begin, end}, .shape = whole.shape};
  const int64_t bytes = whole.shape.bytes();
  part.labels.assign(whole.labels.begin() + begin, whole.labels.begin() + end);
  part.images.assign(whole.images.begin() + begin * bytes, whole.images.begin() + end * bytes);
  return part;
}

// What a step on a CPU tells at once.
inline Result<StepResult> train_on(Learner& learner, const Batch& batch, int64_t step,
                                   double rate) {
  RETURN_IF_ERROR(learner.put(batch));
  ASSIGN_OR_RETURN(const StepResults results, learner.step(step, rate));
  EXPECT_EQ(results.size(), 1U);
  return results.at(0);
}

inline Result<EvaluationSums> evaluate_on(Learner& learner, const Batch& batch) {
  RETURN_IF_ERROR(learner.put(batch));
  return learner.evaluate();
}

inline std::unique_ptr<Learner> make(const Learner::Setup& setup) {
  auto learner = Learner::create(setup);
  EXPECT_TRUE(learner.has_value()) << learner.error().to_string();
  return std::move(*learner);
}

// The numbers of an F32 tensor.
inline std::vector<float> numbers_in(const Bytes& file, const std::string& name) {
  const auto parsed = parse_safetensors(file);
  EXPECT_TRUE(parsed.has_value());
  for (const TensorView& tensor : parsed->tensors) {
    if (tensor.name != name) continue;
    EXPECT_EQ(tensor.dtype, "F32");
    std::vector<float> numbers(tensor.data.size() / sizeof(float));
    std::copy(tensor.data.begin(), tensor.data.end(), reinterpret_cast<char*>(numbers.data()));
    return numbers;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

}  // namespace tern
