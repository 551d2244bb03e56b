// What @kafkajs/confluent-schema-registry does with the registry at the address in argv: one JSON object of findings.
import registryModule from '@kafkajs/confluent-schema-registry'

const { SchemaRegistry, SchemaType, COMPATIBILITY } = registryModule
const registry = new SchemaRegistry({ host: process.argv[2], retry: { retries: 0 } })
const found = {}
const refusal = async (work) => {
  try {
    await work()
    return null
  } catch (error) {
    return { name: error.name, status: error.status ?? null, message: String(error.message) }
  }
}

const avro = {
  type: 'record', name: 'Admission', namespace: 'hospital.npm', fields: [{ name: 'age', type: 'int' }],
}
const first = await registry.register(
  { type: SchemaType.AVRO, schema: JSON.stringify(avro) },
  { subject: 'npm-value', compatibility: COMPATIBILITY.FULL },
)
const again = await registry.register(
  { type: SchemaType.AVRO, schema: JSON.stringify(avro) },
  { subject: 'npm-value', compatibility: COMPATIBILITY.FULL },
)
found.registeredTwice = first.id === again.id
const bytes = await registry.encode(first.id, { age: 42 })
found.frame = bytes.subarray(0, 5).toString('hex') === '00' + first.id.toString(16).padStart(8, '0')
found.decoded = await new SchemaRegistry({ host: process.argv[2] }).decode(bytes)
found.latest = (await registry.getLatestSchemaId('npm-value')) === first.id
found.byVersion = (await registry.getRegistryId('npm-value', 1)) === first.id
found.bySchema =
  (await registry.getRegistryIdBySchema('npm-value', { type: SchemaType.AVRO, schema: JSON.stringify(avro) })) === first.id

const narrower = { ...avro, fields: [{ name: 'age', type: 'string' }] }
found.incompatible = await refusal(() =>
  registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(narrower) },
    { subject: 'npm-value', compatibility: COMPATIBILITY.FULL }))
found.otherLevel = await refusal(() =>
  registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(avro) },
    { subject: 'npm-value', compatibility: COMPATIBILITY.NONE }))
found.unknownSubject = await refusal(() => registry.getLatestSchemaId('npm-nobody'))
found.unknownId = await refusal(() => registry.getSchema(2147483647))

const json = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
const { id } = await registry.register(
  { type: SchemaType.JSON, schema: JSON.stringify(json) }, { subject: 'npm-json-value' })
found.json = await registry.decode(await registry.encode(id, { age: 42 }))
found.jsonInvalid = (await refusal(() => registry.encode(id, { age: 'old' }))).name

const unit = { type: 'record', name: 'Unit', namespace: 'hospital.npm', fields: [{ name: 'ward', type: 'string' }] }
await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(unit) }, { subject: 'npm-unit' })
const stay = {
  type: 'record', name: 'Stay', namespace: 'hospital.npm', fields: [{ name: 'unit', type: 'hospital.npm.Unit' }],
}
const stays = await registry.register(
  {
    type: SchemaType.AVRO,
    schema: JSON.stringify(stay),
    references: [{ name: 'hospital.npm.Unit', subject: 'npm-unit', version: 1 }],
  },
  { subject: 'npm-stay-value' },
)
const reader = new SchemaRegistry({ host: process.argv[2] })
found.referenced = await reader.decode(await registry.encode(stays.id, { unit: { ward: 'icu' } }))
console.log(JSON.stringify(found))
