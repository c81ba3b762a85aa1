// A ValidatingAdmissionPolicy file, judged as the API server judges it: constraints, match conditions, variables in their order, then the
// validations. An expression that fails is a refusal, for the policies say failurePolicy: Fail.
const fs = require("fs");
const yaml = require("yaml");
const { celEnv, parse, plan } = require("@bufbuild/cel");
const { strings } = require("@bufbuild/cel/ext");

const env = celEnv({ funcs: strings });
const evaluate = (expression, bindings) => plan(env, parse(expression))(bindings);
const isTrue = (value) => {
  if (value === true || value === false) return value;
  throw value instanceof Error ? value : new Error(`no truth value: ${value}`);
};

// The fields that the API knows; a misspelt one would be dropped without a word.
const shape = {
  ValidatingAdmissionPolicy: {
    apiVersion: null, kind: null, metadata: { name: null },
    spec: {
      failurePolicy: null,
      matchConstraints: { resourceRules: [{ apiGroups: null, apiVersions: null, operations: null, resources: null }] },
      matchConditions: [{ name: null, expression: null }],
      variables: [{ name: null, expression: null }],
      validations: [{ expression: null, message: null, messageExpression: null, reason: null }],
    },
  },
  ValidatingAdmissionPolicyBinding: {
    apiVersion: null, kind: null, metadata: { name: null }, spec: { policyName: null, validationActions: null },
  },
};

function strayFields(value, known, at = "") {
  if (known === null || known === undefined) return [];
  if (Array.isArray(known)) return (value ?? []).flatMap((item, i) => strayFields(item, known[0], `${at}[${i}]`));
  return Object.keys(value ?? {}).flatMap((key) => (key in known ? strayFields(value[key], known[key], `${at}.${key}`) : [`${at}.${key}`]));
}

function load(file) {
  const documents = yaml.parseAllDocuments(fs.readFileSync(file, "utf8")).map((d) => {
    if (d.errors.length) throw d.errors[0];
    return d.toJS();
  });
  for (const d of documents) {
    if (!(d.kind in shape)) throw new Error(`${file}: an object of kind ${d.kind}`);
    const stray = strayFields(d, shape[d.kind], d.kind);
    if (stray.length) throw new Error(`${file}: fields that the API does not have: ${stray.join(", ")}`);
  }
  return {
    policies: documents.filter((d) => d.kind === "ValidatingAdmissionPolicy"),
    bindings: documents.filter((d) => d.kind === "ValidatingAdmissionPolicyBinding"),
  };
}

const listed = (list, word) => list.includes("*") || list.includes(word);

function concerns(policy, request) {
  return policy.spec.matchConstraints.resourceRules.some(
    (rule) => listed(rule.apiGroups, request.group) && listed(rule.apiVersions, request.version) &&
      rule.operations.includes(request.operation) && rule.resources.includes(request.resource));
}

// The message when this policy refuses the request, else null.
function refusal(policy, { object, oldObject = null, request, namespaceObject = { metadata: { name: "team-a" } } }) {
  if (!concerns(policy, request)) return null;
  const bindings = { object, oldObject, namespaceObject, request: { operation: request.operation, userInfo: request.userInfo }, variables: {} };
  try {
    if (!(policy.spec.matchConditions ?? []).every((c) => isTrue(evaluate(c.expression, bindings)))) return null;
    for (const { name, expression } of policy.spec.variables ?? []) {
      const value = evaluate(expression, bindings);
      if (value instanceof Error) throw value;
      bindings.variables[name] = value;
    }
    for (const v of policy.spec.validations) {
      if (isTrue(evaluate(v.expression, bindings))) continue;
      const text = v.messageExpression ? evaluate(v.messageExpression, bindings) : v.message;
      if (typeof text !== "string") throw new Error(`the message of ${policy.metadata.name} cannot be made: ${text}`);
      return text;
    }
  } catch (error) {
    return `failed closed: ${error.message}`;
  }
  return null;
}

module.exports = { load, refusal };
