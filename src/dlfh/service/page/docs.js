// The description of the endpoints, drawn by Swagger UI.

window.SwaggerUIBundle({ url: "openapi.json", dom_id: "#docs", deepLinking: true, defaultModelsExpandDepth: 0 });
