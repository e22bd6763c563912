#include "engine/program.h"

#include <memory>

#include "base/error.h"

namespace cohort {

const dnnl::engine& cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Binder::Binder(const Program& program, float* laneMemory, float* preparedMemory, const float* parameters,
               const LanePort* port)
    : program_(program),
      laneMemory_(laneMemory),
      preparedMemory_(preparedMemory),
      parameters_(parameters),
      stream_(cpuEngine()),
      port_(port) {}

Binder::~Binder() = default;
Binder::Binder(Binder&&) noexcept = default;

const LanePort& Binder::port() const {
  COHORT_CHECK(port_ != nullptr, "a lane of a group has a way to the others");
  return *port_;
}

float* Binder::at(BufferRef buffer) const {
  const auto index = static_cast<std::size_t>(buffer.index);
  switch (buffer.kind) {
    case BufferRef::Kind::Lane:
      return laneMemory_ + program_.memory.offsets[index] / sizeof(float);
    case BufferRef::Kind::Prepared:
      return preparedMemory_ + program_.prepared[index].offset / sizeof(float);
    case BufferRef::Kind::Parameter:
      // oneDNN's memory objects are not const; kernels only read the arena.
      return const_cast<float*>(parameter(buffer.index));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    case BufferRef::Kind::Input:
      break;
  }
  COHORT_CHECK(false, "the input has no fixed place");
}

const float* Binder::at(BufferRef buffer, const RunState& state) const {
  return buffer.kind == BufferRef::Kind::Input ? state.batch.images.data() : at(buffer);
}

const float* Binder::parameter(ParameterIndex index) const {
  return parameters_ + program_.layout.at(index).offset;
}

dnnl::memory Binder::memory(const Tensor& tensor) {
  if (tensor.buffer.kind == BufferRef::Kind::Input) {
    inputMemories_.emplace_back(tensor.desc, cpuEngine(), nullptr);
    return inputMemories_.back();
  }
  return {tensor.desc, cpuEngine(), at(tensor.buffer) + tensor.offset};
}

Action Binder::call(const dnnl::primitive& primitive, const std::vector<Argument>& arguments) {
  std::vector<std::pair<int, dnnl::memory>> memories;
  memories.reserve(arguments.size());
  for (const Argument& argument : arguments) memories.emplace_back(argument.kind, memory(argument.tensor));
  return callWith(primitive, memories);
}

Action Binder::callWith(const dnnl::primitive& primitive,
                        const std::vector<std::pair<int, dnnl::memory>>& arguments) {
  // The C call takes a plain array that is made once; the C++ call would build a map and a vector every time.
  struct Call {
    dnnl::primitive primitive;
    std::vector<std::pair<int, dnnl::memory>> keepAlive;
    std::vector<dnnl_exec_arg_t> arguments;
    dnnl::stream stream;
  };
  auto prepared = std::make_shared<Call>(Call{primitive, arguments, {}, stream_});
  for (const auto& [kind, memory] : prepared->keepAlive) prepared->arguments.push_back({kind, memory.get()});
  return [prepared](RunState&) {
    const dnnl_status_t status =
        dnnl_primitive_execute(prepared->primitive.get(), prepared->stream.get(),
                               static_cast<int>(prepared->arguments.size()), prepared->arguments.data());
    COHORT_CHECK(status == dnnl_success, "a oneDNN kernel failed");
  };
}

void Binder::setInput(const float* images) {
  for (dnnl::memory& memory : inputMemories_) {
    memory.set_data_handle(
        const_cast<float*>(images));  // NOLINT(cppcoreguidelines-pro-type-const-cast): read only
  }
}

}  // namespace cohort
